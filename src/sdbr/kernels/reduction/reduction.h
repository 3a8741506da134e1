/* Reductions of x[outer, n, inner] to y[outer, inner], by dtype; C-contiguous.
 * `rows`: inner is 1, ints are [outer, n]. `columns`: ints are [outer, n, inner]. */

static int FN(sum_rows)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], n = op->ints[1];
    const T *x = (const T *)op->operands[0];
    T *y = (T *)op->operands[1];
    for (int64_t o = 0; o < outer; o++)
        y[o] = FN(sum_row)(x + o * n, n);
    return SDBR_OK;
}

/* Columns narrower than a few vectors: whole groups of rows are added as one long vector. */
#define NARROW 32
#define GROUP 128

static void FN(sum_narrow)(const T *x, int64_t n, int64_t inner, T *y) {
    T sums[GROUP];
    const int64_t rows = GROUP / inner, length = rows * inner;
    int64_t r = 0;
    if (n >= 2 * rows) {
        memcpy(sums, x, (size_t)length * sizeof(T));
        for (r = rows; r + rows <= n; r += rows)
            for (int64_t i = 0; i < length; i++)
                sums[i] += x[r * inner + i];
        for (int64_t j = 0; j < inner; j++)
            y[j] = sums[j];
        for (int64_t k = 1; k < rows; k++)
            for (int64_t j = 0; j < inner; j++)
                y[j] += sums[k * inner + j];
    } else {
        for (int64_t j = 0; j < inner; j++)
            y[j] = 0;
    }
    for (; r < n; r++)
        for (int64_t j = 0; j < inner; j++)
            y[j] += x[r * inner + j];
}

/* Eight vectors of columns stay in registers while all rows are added. */
static void FN(sum_wide)(const T *x, int64_t n, int64_t inner, T *y) {
    int64_t j = 0;
    for (; j + 8 * LANES <= inner; j += 8 * LANES) {
        FN(vec) s[8];
        for (int k = 0; k < 8; k++)
            s[k] = FN(splat)(0);
        for (int64_t r = 0; r < n; r++)
            for (int k = 0; k < 8; k++)
                s[k] += FN(load)(x + r * inner + j + k * LANES);
        for (int k = 0; k < 8; k++)
            FN(store)(y + j + k * LANES, s[k]);
    }
    for (; j + LANES <= inner; j += LANES) {
        FN(vec) s = FN(splat)(0);
        for (int64_t r = 0; r < n; r++)
            s += FN(load)(x + r * inner + j);
        FN(store)(y + j, s);
    }
    for (; j < inner; j++) {
        T s = 0;
        for (int64_t r = 0; r < n; r++)
            s += x[r * inner + j];
        y[j] = s;
    }
}

SDBR_INLINE void FN(sum_axis)(const T *x, int64_t n, int64_t inner, T *y) {
    if (inner <= NARROW)
        FN(sum_narrow)(x, n, inner, y);
    else
        FN(sum_wide)(x, n, inner, y);
}

static int FN(sum_columns)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], n = op->ints[1], inner = op->ints[2];
    const T *x = (const T *)op->operands[0];
    T *y = (T *)op->operands[1];
    for (int64_t o = 0; o < outer; o++)
        FN(sum_axis)(x + o * n * inner, n, inner, y + o * inner);
    return SDBR_OK;
}

static int FN(mean_rows)(const sdbr_op *op) {
    const int64_t outer = op->ints[0];
    T *y = (T *)op->operands[1], n = (T)op->ints[1];
    FN(sum_rows)(op);
    for (int64_t o = 0; o < outer; o++)
        y[o] /= n;
    return SDBR_OK;
}

static int FN(mean_columns)(const sdbr_op *op) {
    const int64_t size = op->ints[0] * op->ints[2];
    T *y = (T *)op->operands[1], n = (T)op->ints[1];
    FN(sum_columns)(op);
    for (int64_t i = 0; i < size; i++)
        y[i] /= n;
    return SDBR_OK;
}

#define DEFINE_EXTREME(name) \
    static int FN(name##_rows)(const sdbr_op *op) { \
        const int64_t outer = op->ints[0], n = op->ints[1]; \
        const T *x = (const T *)op->operands[0]; \
        T *y = (T *)op->operands[1]; \
        for (int64_t o = 0; o < outer; o++) \
            y[o] = FN(name##_row)(x + o * n, n); \
        return SDBR_OK; \
    } \
    static int FN(name##_columns)(const sdbr_op *op) { \
        const int64_t outer = op->ints[0], n = op->ints[1], inner = op->ints[2], wide = 2048; \
        const T *x = (const T *)op->operands[0]; \
        T *y = (T *)op->operands[1]; \
        for (int64_t o = 0; o < outer; o++) \
            for (int64_t j = 0; j < inner; j += wide) \
                FN(name##_axis)(x + o * n * inner + j, n, inner, inner - j < wide ? inner - j : wide, \
                                y + o * inner + j); \
        return SDBR_OK; \
    }

DEFINE_EXTREME(max)
DEFINE_EXTREME(min)

#undef DEFINE_EXTREME
#undef NARROW
#undef GROUP
