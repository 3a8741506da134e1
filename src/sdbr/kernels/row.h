/* Softmax and relatives of x[outer, n, inner] along n, by dtype; C-contiguous.
 * `rows`: inner is 1, ints are [outer, n]. `columns`: ints are [outer, n, inner].
 *
 * Rows are taken in groups of up to ROW_BLOCK elements, so that exp runs over the elements of many
 * short rows at once. Columns are taken in groups of up to COLUMN_BLOCK. */

#define ROW_BLOCK 1024
#define COLUMN_BLOCK 256

SDBR_INLINE int64_t FN(rows_at_once)(int64_t n) { return n >= ROW_BLOCK ? 1 : ROW_BLOCK / (n > 0 ? n : 1); }

SDBR_INLINE void FN(exp_all)(const T *x, T *y, int64_t n) {
    SDBR_IVDEP
    for (int64_t i = 0; i < n; i++)
        y[i] = FN(sdbr_exp)(x[i]);
}

/* The lengths of very short rows are constants, so that the loops over them unroll: three times as
 * fast for two classes. */
#define FOR_LENGTH(n, CALL) \
    switch (n) { \
    case 2: \
        CALL(2); \
        break; \
    case 3: \
        CALL(3); \
        break; \
    case 4: \
        CALL(4); \
        break; \
    default: \
        CALL(n); \
    }

SDBR_INLINE T FN(max_of)(const T *x, int64_t n) {
    if (n > 4)
        return FN(max_row)(x, n);
    T m = x[0];
    for (int64_t i = 1; i < n; i++)
        m = FN(op_maximum)(x[i], m, 0, 0);
    return m;
}

/* m = max(x), y = x - m. */
SDBR_INLINE void FN(below_max_loop)(const T *x, T *y, T *m, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; r++) {
        m[r] = FN(max_of)(x + r * n, n);
        SDBR_IVDEP
        for (int64_t i = 0; i < n; i++)
            y[r * n + i] = x[r * n + i] - m[r];
    }
}

static void FN(below_max)(const T *x, T *y, T *m, int64_t rows, int64_t n) {
#define CALL(N) FN(below_max_loop)(x, y, m, rows, N)
    FOR_LENGTH(n, CALL)
#undef CALL
}

SDBR_INLINE void FN(sum_loop)(const T *x, T *s, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; r++) {
        if (n > 4) {
            s[r] = FN(sum_row)(x + r * n, n);
            continue;
        }
        T sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += x[r * n + i];
        s[r] = sum;
    }
}

static void FN(sum_each)(const T *x, T *s, int64_t rows, int64_t n) {
#define CALL(N) FN(sum_loop)(x, s, rows, N)
    FOR_LENGTH(n, CALL)
#undef CALL
}

SDBR_INLINE void FN(divide_loop)(T *y, const T *s, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; r++) {
        const T d = s[r];
        SDBR_IVDEP
        for (int64_t i = 0; i < n; i++)
            y[r * n + i] /= d;
    }
}

static void FN(divide_each)(T *y, const T *s, int64_t rows, int64_t n) {
#define CALL(N) FN(divide_loop)(y, s, rows, N)
    FOR_LENGTH(n, CALL)
#undef CALL
}

SDBR_INLINE void FN(subtract_loop)(const T *x, T *y, const T *m, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; r++) {
        const T v = m[r];
        SDBR_IVDEP
        for (int64_t i = 0; i < n; i++)
            y[r * n + i] = x[r * n + i] - v;
    }
}

static void FN(subtract_each)(const T *x, T *y, const T *m, int64_t rows, int64_t n) {
#define CALL(N) FN(subtract_loop)(x, y, m, rows, N)
    FOR_LENGTH(n, CALL)
#undef CALL
}

static int FN(softmax_rows)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], n = op->ints[1], group = FN(rows_at_once)(n);
    T s[ROW_BLOCK];
    for (int64_t o = 0; o < outer; o += group) {
        const int64_t rows = outer - o < group ? outer - o : group;
        T *y = (T *)op->operands[1] + o * n;
        FN(below_max)((const T *)op->operands[0] + o * n, y, s, rows, n);
        FN(exp_all)(y, y, rows * n);
        FN(sum_each)(y, s, rows, n);
        FN(divide_each)(y, s, rows, n);
    }
    return SDBR_OK;
}

static int FN(softmax_columns)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], n = op->ints[1], inner = op->ints[2];
    T m[COLUMN_BLOCK], s[COLUMN_BLOCK];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < inner; j += COLUMN_BLOCK) {
            const int64_t width = inner - j < COLUMN_BLOCK ? inner - j : COLUMN_BLOCK;
            const T *x = (const T *)op->operands[0] + o * n * inner + j;
            T *y = (T *)op->operands[1] + o * n * inner + j;
            FN(max_axis)(x, n, inner, width, m);
            for (int64_t k = 0; k < width; k++)
                s[k] = 0;
            for (int64_t r = 0; r < n; r++) {
                SDBR_IVDEP
                for (int64_t k = 0; k < width; k++) {
                    const T e = FN(sdbr_exp)(x[r * inner + k] - m[k]);
                    y[r * inner + k] = e;
                    s[k] += e;
                }
            }
            for (int64_t r = 0; r < n; r++) {
                SDBR_IVDEP
                for (int64_t k = 0; k < width; k++)
                    y[r * inner + k] /= s[k];
            }
        }
    return SDBR_OK;
}

static int FN(softmax_grad_rows)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], n = op->ints[1];
    for (int64_t o = 0; o < outer; o++) {
        const T *y = (const T *)op->operands[0] + o * n, *gy = (const T *)op->operands[1] + o * n;
        T *gx = (T *)op->operands[2] + o * n;
        const T s = FN(dot_row)(y, gy, n);
        SDBR_IVDEP
        for (int64_t i = 0; i < n; i++)
            gx[i] = y[i] * (gy[i] - s);
    }
    return SDBR_OK;
}

static int FN(softmax_grad_columns)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], n = op->ints[1], inner = op->ints[2];
    T s[COLUMN_BLOCK];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < inner; j += COLUMN_BLOCK) {
            const int64_t width = inner - j < COLUMN_BLOCK ? inner - j : COLUMN_BLOCK, at = o * n * inner + j;
            const T *y = (const T *)op->operands[0] + at, *gy = (const T *)op->operands[1] + at;
            T *gx = (T *)op->operands[2] + at;
            for (int64_t k = 0; k < width; k++)
                s[k] = 0;
            for (int64_t r = 0; r < n; r++) {
                SDBR_IVDEP
                for (int64_t k = 0; k < width; k++)
                    s[k] += y[r * inner + k] * gy[r * inner + k];
            }
            for (int64_t r = 0; r < n; r++) {
                SDBR_IVDEP
                for (int64_t k = 0; k < width; k++)
                    gx[r * inner + k] = y[r * inner + k] * (gy[r * inner + k] - s[k]);
            }
        }
    return SDBR_OK;
}

/* Sum of exp(x - m) of a row longer than the scratch. */
SDBR_INLINE T FN(sum_exp_long)(const T *x, T m, int64_t n, T *scratch) {
    double sum = 0;
    for (int64_t i = 0; i < n; i += ROW_BLOCK) {
        const int64_t length = n - i < ROW_BLOCK ? n - i : ROW_BLOCK;
        for (int64_t k = 0; k < length; k++)
            scratch[k] = FN(sdbr_exp)(x[i + k] - m);
        sum += (double)FN(sum_row)(scratch, length);
    }
    return (T)sum;
}

/* m = log(sum(exp(x))) of each of a group of rows. */
static void FN(log_sums)(const T *x, T *m, int64_t rows, int64_t n) {
    T scratch[ROW_BLOCK], s[ROW_BLOCK];
    if (n > ROW_BLOCK) {
        m[0] = FN(max_row)(x, n);
        s[0] = FN(sum_exp_long)(x, m[0], n, scratch);
    } else {
        FN(below_max)(x, scratch, m, rows, n);
        FN(exp_all)(scratch, scratch, rows * n);
        FN(sum_each)(scratch, s, rows, n);
    }
    for (int64_t r = 0; r < rows; r++)
        m[r] += FN(sdbr_log)(s[r]);
}

static void FN(log_softmax_all_rows)(const T *x_all, T *y_all, int64_t outer, int64_t n) {
    const int64_t group = FN(rows_at_once)(n);
    T m[ROW_BLOCK];
    for (int64_t o = 0; n > 0 && o < outer; o += group) {
        const int64_t rows = outer - o < group ? outer - o : group;
        FN(log_sums)(x_all + o * n, m, rows, n);
        FN(subtract_each)(x_all + o * n, y_all + o * n, m, rows, n);
    }
}

/* m = log(sum(exp(x))) of `width` columns, at most COLUMN_BLOCK. */
SDBR_INLINE void FN(log_sums_of_columns)(const T *x, T *m, int64_t n, int64_t inner, int64_t width) {
    T s[COLUMN_BLOCK];
    FN(max_axis)(x, n, inner, width, m);
    for (int64_t k = 0; k < width; k++)
        s[k] = 0;
    for (int64_t r = 0; r < n; r++) {
        SDBR_IVDEP
        for (int64_t k = 0; k < width; k++)
            s[k] += FN(sdbr_exp)(x[r * inner + k] - m[k]);
    }
    for (int64_t k = 0; k < width; k++)
        m[k] += FN(sdbr_log)(s[k]);
}

/* y[outer, inner] = log(sum(exp(x))) of x[outer, n, inner], n > 0. */
static void FN(log_sum_exp_all)(const T *x, T *y, int64_t outer, int64_t n, int64_t inner) {
    if (inner == 1) {
        const int64_t group = FN(rows_at_once)(n);
        for (int64_t o = 0; o < outer; o += group)
            FN(log_sums)(x + o * n, y + o, outer - o < group ? outer - o : group, n);
        return;
    }
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < inner; j += COLUMN_BLOCK)
            FN(log_sums_of_columns)(x + o * n * inner + j, y + o * inner + j, n, inner,
                                    inner - j < COLUMN_BLOCK ? inner - j : COLUMN_BLOCK);
}

static void FN(log_softmax_all_columns)(const T *x_all, T *y_all, int64_t outer, int64_t n, int64_t inner) {
    T m[COLUMN_BLOCK];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < inner; j += COLUMN_BLOCK) {
            const int64_t width = inner - j < COLUMN_BLOCK ? inner - j : COLUMN_BLOCK;
            const T *x = x_all + o * n * inner + j;
            T *y = y_all + o * n * inner + j;
            FN(log_sums_of_columns)(x, m, n, inner, width);
            for (int64_t r = 0; r < n; r++) {
                SDBR_IVDEP
                for (int64_t k = 0; k < width; k++)
                    y[r * inner + k] = x[r * inner + k] - m[k];
            }
        }
}

static int FN(log_softmax_rows)(const sdbr_op *op) {
    FN(log_softmax_all_rows)((const T *)op->operands[0], (T *)op->operands[1], op->ints[0], op->ints[1]);
    return SDBR_OK;
}

static int FN(log_softmax_columns)(const sdbr_op *op) {
    FN(log_softmax_all_columns)((const T *)op->operands[0], (T *)op->operands[1], op->ints[0], op->ints[1],
                                op->ints[2]);
    return SDBR_OK;
}

static int FN(log_softmax_grad_rows)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], n = op->ints[1], group = FN(rows_at_once)(n);
    T scratch[ROW_BLOCK];
    for (int64_t o = 0; o < outer; o += group) {
        const int64_t rows = outer - o < group ? outer - o : group;
        const T *y = (const T *)op->operands[0] + o * n, *gy = (const T *)op->operands[1] + o * n;
        T *gx = (T *)op->operands[2] + o * n;
        if (n > ROW_BLOCK) {
            const T s = FN(sum_row)(gy, n);
            SDBR_IVDEP
            for (int64_t i = 0; i < n; i++)
                gx[i] = gy[i] - FN(sdbr_exp)(y[i]) * s;
            continue;
        }
        FN(exp_all)(y, scratch, rows * n);
        for (int64_t r = 0; r < rows; r++) {
            const T s = FN(sum_row)(gy + r * n, n);
            SDBR_IVDEP
            for (int64_t i = 0; i < n; i++)
                gx[r * n + i] = gy[r * n + i] - scratch[r * n + i] * s;
        }
    }
    return SDBR_OK;
}

static int FN(log_softmax_grad_columns)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], n = op->ints[1], inner = op->ints[2];
    T s[COLUMN_BLOCK];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < inner; j += COLUMN_BLOCK) {
            const int64_t width = inner - j < COLUMN_BLOCK ? inner - j : COLUMN_BLOCK, at = o * n * inner + j;
            const T *y = (const T *)op->operands[0] + at, *gy = (const T *)op->operands[1] + at;
            T *gx = (T *)op->operands[2] + at;
            for (int64_t k = 0; k < width; k++)
                s[k] = 0;
            for (int64_t r = 0; r < n; r++) {
                SDBR_IVDEP
                for (int64_t k = 0; k < width; k++)
                    s[k] += gy[r * inner + k];
            }
            for (int64_t r = 0; r < n; r++) {
                SDBR_IVDEP
                for (int64_t k = 0; k < width; k++)
                    gx[r * inner + k] = gy[r * inner + k] - FN(sdbr_exp)(y[r * inner + k]) * s[k];
            }
        }
    return SDBR_OK;
}
