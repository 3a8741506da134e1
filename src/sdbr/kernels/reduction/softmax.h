/* Softmax and relatives of x[outer, n, inner] along n, by dtype; C-contiguous.
 * `rows`: inner is 1, ints are [outer, n]. `columns`: ints are [outer, n, inner]. */

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

static void FN(log_softmax_all_rows)(const T *x_all, T *y_all, int64_t outer, int64_t n) {
    const int64_t group = FN(rows_at_once)(n);
    T m[ROW_BLOCK];
    for (int64_t o = 0; n > 0 && o < outer; o += group) {
        const int64_t rows = outer - o < group ? outer - o : group;
        FN(log_sums)(x_all + o * n, m, rows, n);
        FN(subtract_each)(x_all + o * n, y_all + o * n, m, rows, n);
    }
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
