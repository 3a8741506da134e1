/* Products of a few rows and columns, for one dtype: where panels and blocks cost more than the sums. */

/* The largest number of columns, and of elements to a sum. */
#define SMALL_COLUMNS 8
#define SMALL_DEPTH 16

typedef T FN(four) __attribute__((vector_size(4 * sizeof(T))));

SDBR_INLINE int FN(is_small)(int64_t n, int64_t m, int64_t depth) {
    return n <= 4 * SMALL_COLUMNS && m <= SMALL_COLUMNS && depth <= SMALL_DEPTH;
}

/* c[i, j] = sum over k of a[i * row_step + k * a_step] * b[k, j], four columns of `rows` rows at once. */
SDBR_INLINE void FN(few_columns)(int rows, int columns, int64_t depth, const T *a, int64_t row_step, int64_t a_step,
                                 const T *panel, T *c, int64_t ldc) {
    FN(four) sums[4], b;
    for (int i = 0; i < rows; i++)
        sums[i] = (FN(four)){0};
    for (int64_t k = 0; k < depth; k++, a += a_step) {
        memcpy(&b, panel + k * SMALL_COLUMNS, sizeof b);
        for (int i = 0; i < rows; i++)
            sums[i] += a[i * row_step] * b;
    }
    for (int i = 0; i < rows; i++, c += ldc) {
        if (columns >= 4)
            memcpy(c, &sums[i], sizeof b);
        else
            for (int j = 0; j < columns; j++)
                c[j] = sums[i][j];
    }
}

/* c[n, m]; b[k, j] is at b[k * ldb + j], or at b[k + j * ldb] when it is given transposed. */
static void FN(small_product)(int64_t n, int64_t m, int64_t depth, const T *a, int64_t row_step, int64_t a_step,
                              const T *b, int64_t ldb, int transposed, T *c) {
    T panel[SMALL_DEPTH * SMALL_COLUMNS];
    const int64_t along = transposed ? 1 : ldb, across = transposed ? ldb : 1;
    for (int64_t k = 0; k < depth; k++) {
        int64_t j = 0;
        for (; j < m; j++)
            panel[k * SMALL_COLUMNS + j] = b[k * along + j * across];
        for (; j % 4 > 0; j++)
            panel[k * SMALL_COLUMNS + j] = 0;
    }
    for (int64_t j = 0; j < m; j += 4) {
        const int columns = (int)(m - j);
        int64_t i = 0;
        for (; i + 4 <= n; i += 4)
            FN(few_columns)(4, columns, depth, a + i * row_step, row_step, a_step, panel + j, c + i * m + j, m);
        for (; i < n; i++)
            FN(few_columns)(1, columns, depth, a + i * row_step, row_step, a_step, panel + j, c + i * m + j, m);
    }
}

#undef SMALL_COLUMNS
#undef SMALL_DEPTH
