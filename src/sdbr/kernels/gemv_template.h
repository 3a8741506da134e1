/* Products with a vector for one dtype: no packing, no call of BLAS. */

#define LANES ((int)(SDBR_GEMM_BYTES / sizeof(T)))
#define SMALL ((int)(16 / sizeof(T)))

typedef T FN(wide_vector) __attribute__((vector_size(SDBR_GEMM_BYTES), aligned(sizeof(T)), may_alias));
typedef T FN(small_vector) __attribute__((vector_size(16), aligned(sizeof(T)), may_alias));
#define W FN(wide_vector)
#define S FN(small_vector)

/* y[i] = x @ w[i * ldw : i * ldw + depth] for i < rows */
SDBR_INLINE void FN(dots)(const int rows, const T *x, const T *w, int64_t ldw, int64_t depth, T *y) {
    S sum[4];
    int64_t k = 0;
    SDBR_UNROLL for (int i = 0; i < rows; ++i)
        sum[i] = (S){0};
    if (depth >= 2 * LANES) {
        W wide[4];
        SDBR_UNROLL for (int i = 0; i < rows; ++i)
            wide[i] = (W){0};
        for (; k + LANES <= depth; k += LANES) {
            const W part = *(const W *)(x + k);
            SDBR_UNROLL for (int i = 0; i < rows; ++i)
                wide[i] += part * *(const W *)(w + i * ldw + k);
        }
        SDBR_UNROLL for (int i = 0; i < rows; ++i) {
            T lanes[LANES];
            *(W *)lanes = wide[i];
            SDBR_UNROLL for (int j = 0; j < LANES; j += SMALL)
                sum[i] += *(const S *)(lanes + j);
        }
    }
    for (; k + SMALL <= depth; k += SMALL) {
        const S part = *(const S *)(x + k);
        SDBR_UNROLL for (int i = 0; i < rows; ++i)
            sum[i] += part * *(const S *)(w + i * ldw + k);
    }
    SDBR_UNROLL for (int i = 0; i < rows; ++i) {
        T total = sum[i][0];
        SDBR_UNROLL for (int j = 1; j < SMALL; ++j)
            total += sum[i][j];
        for (int64_t rest = k; rest < depth; ++rest)
            total += x[rest] * w[i * ldw + rest];
        y[i] = total;
    }
}

/* c[m] = epilogue(a[depth] @ b[depth, m]) */
static void FN(row_product)(int64_t m, int64_t depth, const T *a, const T *b, T *c, const FN(epilogue) *e) {
    int64_t j = 0;
#define SDBR_COLUMNS(columns, kernel)                                                                \
    for (; j + (columns) <= m; j += (columns))                                                       \
        kernel(a, 1, b + j, m, depth, c + j, e, NULL, e->mask == NULL ? NULL : e->mask + j);
    SDBR_COLUMNS(2 * LANES, FN(row_two))
    SDBR_COLUMNS(LANES, FN(row_one))
#if SDBR_GEMM_BYTES >= 32
    SDBR_COLUMNS(LANES / 2, FN(row_half))
#endif
#if SDBR_GEMM_BYTES >= 64
    SDBR_COLUMNS(LANES / 4, FN(row_quarter))
#endif
#undef SDBR_COLUMNS
    for (; j < m; ++j) {
        T total = 0;
        for (int64_t k = 0; k < depth; ++k)
            total += a[k] * b[k * m + j];
        if (e->accumulate)
            total += c[j];
        c[j] = e->mask == NULL ? total : FN(masked)(total, e->mask[j], e->masked);
    }
}

/* c[i, j] = a[i] * b[j] + (accumulate ? c[i, j] : 0) */
static void FN(outer)(int64_t n, int64_t m, const T *a, const T *b, T *c, int accumulate) {
    for (int64_t i = 0; i < n; ++i, c += m) {
        const T scale = a[i];
        int64_t j = 0;
        if (accumulate) {
            for (; j + LANES <= m; j += LANES)
                *(W *)(c + j) += scale * *(const W *)(b + j);
            for (; j + SMALL <= m; j += SMALL)
                *(S *)(c + j) += scale * *(const S *)(b + j);
            for (; j < m; ++j)
                c[j] += scale * b[j];
        } else {
            for (; j + LANES <= m; j += LANES)
                *(W *)(c + j) = scale * *(const W *)(b + j);
            for (; j + SMALL <= m; j += SMALL)
                *(S *)(c + j) = scale * *(const S *)(b + j);
            for (; j < m; ++j)
                c[j] = scale * b[j];
        }
    }
}

#undef LANES
#undef SMALL
#undef W
#undef S
