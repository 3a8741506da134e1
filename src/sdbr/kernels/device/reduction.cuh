/* Reductions and softmax of x[outer, n, inner] along n, by dtype.
 * ints: [outer, n, inner, rows at a time]. */

#define SDBR_REDUCTION(name, start, taken, combined, result) \
    SDBR_INLINE void FN(name##_team)(sdbr_team team, const sdbr_device_op *op) { \
        const int64_t n = op->ints[1], inner = op->ints[2], rows = op->ints[0] * inner; \
        const sdbr_strand strand = sdbr_strand_of(team, op->ints[3]); \
        const T *x = SDBR_IN(0); \
        T *y = SDBR_OUT(1); \
        SDBR_EACH_ROW(strand, rows) { \
            SDBR_ROW_OF(strand, rows, inner, n); \
            T v = start; \
            for (int64_t k = from; k < n; k += strand.phases) { \
                const T e = x[first + k * inner]; \
                v = taken; \
            } \
            v = FN(combined)(strand, v); \
            if (is_row && strand.phase == 0) \
                y[row] = result; \
        } \
    }

/* The same of long rows, in two launches: `parts` of each row by a team each, to op->work, then these.
 * ints: [rows, n, parts]. */
#define SDBR_LONG_REDUCTION(name, start, taken, combined, result) \
    SDBR_INLINE void FN(name##_parts_team)(sdbr_team team, const sdbr_device_op *op) { \
        const int64_t n = op->ints[1], parts = op->ints[2]; \
        for (int64_t piece = team.group; piece < op->ints[0] * parts; piece += team.groups) { \
            const int64_t row = piece / parts, part = piece % parts, end = n * (part + 1) / parts; \
            T v = start; \
            for (int64_t k = n * part / parts + team.rank; k < end; k += team.size) { \
                const T e = SDBR_IN(0)[row * n + k]; \
                v = taken; \
            } \
            v = FN(combined)(sdbr_strand_of(team, 1), v); \
            if (team.rank == 0) \
                op->work[piece] = (double)v; \
        } \
    } \
    SDBR_INLINE void FN(name##_of_parts_team)(sdbr_team team, const sdbr_device_op *op) { \
        const int64_t n = op->ints[1], parts = op->ints[2]; \
        for (int64_t row = team.group; row < op->ints[0]; row += team.groups) { \
            T v = start; \
            for (int64_t part = team.rank; part < parts; part += team.size) { \
                const T e = (T)op->work[row * parts + part]; \
                v = taken; \
            } \
            v = FN(combined)(sdbr_strand_of(team, 1), v); \
            (void)n; \
            if (team.rank == 0) \
                SDBR_OUT(1)[row] = result; \
        } \
    }

#define SDBR_REDUCTIONS(name, start, taken, combined, result) \
    SDBR_REDUCTION(name, start, taken, combined, result) \
    SDBR_LONG_REDUCTION(name, start, taken, combined, result)

SDBR_REDUCTIONS(sum, (T)0, v + e, strand_sum, v)
SDBR_REDUCTIONS(mean, (T)0, v + e, strand_sum, v / (T)n)
SDBR_REDUCTIONS(max, -(T)INFINITY, FN(op_maximum)(v, e, (T)0, (T)0), strand_max, v)
SDBR_REDUCTIONS(min, (T)INFINITY, FN(op_minimum)(v, e, (T)0, (T)0), strand_min, v)
#undef SDBR_REDUCTION
#undef SDBR_LONG_REDUCTION
#undef SDBR_REDUCTIONS

/* The largest of a row, and the sum of exp(x - largest): of all threads of the strand. */
SDBR_INLINE T FN(strand_exp_sum)(sdbr_strand strand, const T *x, int64_t from, int64_t n, int64_t inner, T *largest) {
    T top = -(T)INFINITY, sum = 0;
    for (int64_t k = from; k < n; k += strand.phases)
        top = FN(op_maximum)(top, x[k * inner], (T)0, (T)0);
    top = FN(strand_max)(strand, top);
    for (int64_t k = from; k < n; k += strand.phases)
        sum += FN(sdbr_exp)(x[k * inner] - top);
    *largest = top;
    return FN(strand_sum)(strand, sum);
}

#define SDBR_SOFTMAX(name, value) \
    SDBR_INLINE void FN(name##_team)(sdbr_team team, const sdbr_device_op *op) { \
        const int64_t n = op->ints[1], inner = op->ints[2], rows = op->ints[0] * inner; \
        const sdbr_strand strand = sdbr_strand_of(team, op->ints[3]); \
        SDBR_EACH_ROW(strand, rows) { \
            SDBR_ROW_OF(strand, rows, inner, n); \
            const T *x = SDBR_IN(0) + first; \
            T *y = SDBR_OUT(1) + first, top; \
            const T sum = FN(strand_exp_sum)(strand, x, from, n, inner, &top), lse = FN(sdbr_log)(sum) + top; \
            (void)lse; \
            for (int64_t k = from; k < n; k += strand.phases) \
                y[k * inner] = value; \
        } \
    }

SDBR_SOFTMAX(softmax, FN(sdbr_exp)(x[k * inner] - top) / sum)
SDBR_SOFTMAX(log_softmax, x[k * inner] - lse)
#undef SDBR_SOFTMAX

/* operands: y, gy, gx, which may be one of them. */
#define SDBR_SOFTMAX_GRAD(name, term, value) \
    SDBR_INLINE void FN(name##_team)(sdbr_team team, const sdbr_device_op *op) { \
        const int64_t n = op->ints[1], inner = op->ints[2], rows = op->ints[0] * inner; \
        const sdbr_strand strand = sdbr_strand_of(team, op->ints[3]); \
        SDBR_EACH_ROW(strand, rows) { \
            SDBR_ROW_OF(strand, rows, inner, n); \
            const T *y = SDBR_IN(0) + first, *gy = SDBR_IN(1) + first; \
            T *gx = SDBR_OUT(2) + first, sum = 0; \
            for (int64_t k = from * inner; k < n * inner; k += strand.phases * inner) \
                sum += term; \
            sum = FN(strand_sum)(strand, sum); \
            for (int64_t k = from * inner; k < n * inner; k += strand.phases * inner) \
                gx[k] = value; \
        } \
    }

SDBR_SOFTMAX_GRAD(softmax_grad, y[k] * gy[k], y[k] * (gy[k] - sum))
SDBR_SOFTMAX_GRAD(log_softmax_grad, gy[k], gy[k] - FN(sdbr_exp)(y[k]) * sum)
#undef SDBR_SOFTMAX_GRAD
