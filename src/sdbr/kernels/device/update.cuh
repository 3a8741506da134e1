/* Updates of parameters, by dtype: `name` of one parameter, ints [n]; `name_together` of any number by one rule.
 *
 * Together: operands[0] and operands[1] are lists. Of addresses: those of each parameter after one another. Of
 * integers: [parameters, pieces], then sizes and addresses of floats of the parameters, then which parameter each
 * piece is of, and where in it it begins; a piece has SDBR_PIECE elements at most. */
#ifndef SDBR_PIECE
#define SDBR_PIECE 1024 /* as in backends/cuda/together.py */
#endif

#define SDBR_READ(k) (((const T *)at[k])[i])
#define SDBR_WRITTEN(k) (((T *)at[k])[i])

#define SDBR_UPDATE(name, n_operands, count, ...) \
    SDBR_INLINE void FN(name##_some)(char *const *at, const double *floats, int64_t from, int64_t to, int64_t step) { \
        SDBR_ROUNDED(f, floats, count); \
        for (int64_t i = from; i < to; i += step) { \
            __VA_ARGS__ \
        } \
    } \
    SDBR_INLINE void FN(name##_team)(sdbr_team team, const sdbr_device_op *op) { \
        char *at[n_operands]; \
        for (int k = 0; k < (n_operands); k++) \
            at[k] = sdbr_at(op, k); \
        FN(name##_some)(at, op->floats, sdbr_first(team), op->ints[0], sdbr_stride(team)); \
    } \
    SDBR_INLINE void FN(name##_together_team)(sdbr_team team, const sdbr_device_op *op) { \
        char *const *lists = (char *const *)op->operands[0]; \
        const int64_t *ints = (const int64_t *)op->operands[1], parameters = ints[0], pieces = ints[1]; \
        const int64_t *sizes = ints + 2, *floats = sizes + parameters, *whose = floats + parameters, *begins = whose + pieces; \
        for (int64_t piece = team.group; piece < pieces; piece += team.groups) { \
            const int64_t k = whose[piece], begin = begins[piece]; \
            const int64_t end = sizes[k] - begin < SDBR_PIECE ? sizes[k] : begin + SDBR_PIECE; \
            FN(name##_some)(lists + k * (n_operands), (const double *)floats[k], begin + team.rank, end, team.size); \
        } \
    }

SDBR_UPDATE(sgd, 3, 1, SDBR_WRITTEN(2) = FN(sgd_of)(SDBR_READ(0), SDBR_READ(1), f);)
SDBR_UPDATE(momentum_sgd, 5, 2, {
    const T next = FN(momentum_of)(SDBR_READ(0), SDBR_READ(2), f);
    SDBR_WRITTEN(4) = next;
    SDBR_WRITTEN(3) = SDBR_READ(1) + next;
})
SDBR_UPDATE(adam, 7, 8, {
    const T m = FN(adam_mean)(SDBR_READ(0), SDBR_READ(2), f), v = FN(adam_square)(SDBR_READ(0), SDBR_READ(3), f);
    SDBR_WRITTEN(5) = m;
    SDBR_WRITTEN(6) = v;
    SDBR_WRITTEN(4) = FN(adam_of)(SDBR_READ(1), m, v, f);
})
SDBR_UPDATE(adam_vhat, 9, 8, {
    const T m = FN(adam_mean)(SDBR_READ(0), SDBR_READ(2), f), v = FN(adam_square)(SDBR_READ(0), SDBR_READ(3), f);
    const T largest = FN(adam_largest)(SDBR_READ(4), v);
    SDBR_WRITTEN(6) = m;
    SDBR_WRITTEN(7) = v;
    SDBR_WRITTEN(8) = largest;
    SDBR_WRITTEN(5) = FN(adam_of)(SDBR_READ(1), m, largest, f);
})
SDBR_UPDATE(rmsprop, 5, 5, {
    const T ms = FN(rmsprop_square)(SDBR_READ(0), SDBR_READ(2), f);
    SDBR_WRITTEN(4) = ms;
    SDBR_WRITTEN(3) = FN(rmsprop_of)(SDBR_READ(0), SDBR_READ(1), ms, f);
})
SDBR_UPDATE(weight_decay, 3, 1, SDBR_WRITTEN(2) = FN(weight_decay_of)(SDBR_READ(0), SDBR_READ(1), f);)
SDBR_UPDATE(lasso, 3, 1, SDBR_WRITTEN(2) = FN(lasso_of)(SDBR_READ(0), SDBR_READ(1), f);)
#undef SDBR_UPDATE
#undef SDBR_READ
#undef SDBR_WRITTEN

/* Gradients of any number of arrays: operands[0] and operands[1] are lists, of the addresses of g... and norm, and of
 * the integers [count, sizes...]. */
SDBR_INLINE T *FN(listed)(const sdbr_device_op *op, int64_t k) { return ((T *const *)op->operands[0])[k]; }

/* work[k] = (g * g).sum() of array k, in double: a team each. */
SDBR_INLINE void FN(clip_norm_sums_team)(sdbr_team team, const sdbr_device_op *op) {
    const int64_t *ints = (const int64_t *)op->operands[1];
    for (int64_t k = team.group; k < ints[0]; k += team.groups) {
        const T *g = FN(listed)(op, k);
        double sum = 0;
        for (int64_t i = team.rank; i < ints[1 + k]; i += team.size)
            sum += (double)g[i] * (double)g[i];
        sum = FN(strand_total)(sdbr_strand_of(team, 1), sum);
        if (team.rank == 0)
            op->work[k] = sum;
    }
}

/* norm = sqrt of their sum; g *= threshold / norm unless that is >= 1: see update/kernels.h. */
SDBR_INLINE void FN(clip_norm_team)(sdbr_team team, const sdbr_device_op *op) {
    const int64_t *ints = (const int64_t *)op->operands[1], count = ints[0];
    T total = 0;
    for (int64_t k = 0; k < count; k++)
        total += (T)op->work[k];
    const T norm = SQRT(total), rate = (T)op->floats[0] / norm;
    if (sdbr_first(team) == 0)
        *(double *)FN(listed)(op, count) = (double)norm;
    if (rate >= 1)
        return;
    for (int64_t k = 0; k < count; k++)
        for (int64_t i = sdbr_first(team); i < ints[1 + k]; i += sdbr_stride(team))
            FN(listed)(op, k)[i] *= rate;
}
