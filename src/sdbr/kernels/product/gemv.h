/* Products with a vector for one dtype: no packing, no call of BLAS. */

#define LANES ((int)(SDBR_GEMM_BYTES / sizeof(T)))
#define SMALL ((int)(16 / sizeof(T)))
/* Elements of a product with a vector until its sums begin anew: what is added to a small one is rounded by little. */
#define VECTOR_STRETCH ((int64_t)(128 * SDBR_GEMM_BYTES / sizeof(T)))

typedef T FN(wide_vector) __attribute__((vector_size(SDBR_GEMM_BYTES), aligned(sizeof(T)), may_alias));
typedef T FN(small_vector) __attribute__((vector_size(16), aligned(sizeof(T)), may_alias));
typedef INT FN(small_index) __attribute__((vector_size(16)));
#define W FN(wide_vector)
#define B FN(block_vector)
#define BLOCK ((int)(sizeof(B) / sizeof(T)))
#define S FN(small_vector)
#define I FN(small_index)

/* The sums over the lanes of four vectors. */
SDBR_INLINE void FN(add_lanes)(const S *sum, S *total) {
#if SDBR_FLOATS
    const S a = SDBR_SHUFFLE(sum[0], sum[1], I, 0, 4, 1, 5) + SDBR_SHUFFLE(sum[0], sum[1], I, 2, 6, 3, 7);
    const S b = SDBR_SHUFFLE(sum[2], sum[3], I, 0, 4, 1, 5) + SDBR_SHUFFLE(sum[2], sum[3], I, 2, 6, 3, 7);
    total[0] = SDBR_SHUFFLE(a, b, I, 0, 1, 4, 5) + SDBR_SHUFFLE(a, b, I, 2, 3, 6, 7);
#else
    total[0] = SDBR_SHUFFLE(sum[0], sum[1], I, 0, 2) + SDBR_SHUFFLE(sum[0], sum[1], I, 1, 3);
    total[1] = SDBR_SHUFFLE(sum[2], sum[3], I, 0, 2) + SDBR_SHUFFLE(sum[2], sum[3], I, 1, 3);
#endif
}

/* The sums over the lanes of `rows` products x * w[i * ldw + k], k < depth - depth % SMALL. */
SDBR_INLINE int64_t FN(lane_sums)(const int rows, const T *x, const T *w, int64_t ldw, int64_t depth, S *sum) {
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
    return k;
}

/* y[i] = relu(x @ w[i * ldw : i * ldw + depth] + bias[i]) for i < 4 */
SDBR_INLINE void FN(four_dots)(const T *x, const T *w, int64_t ldw, int64_t depth, const T *bias, int relu, T *y) {
    S sum[4], total[4 / SMALL];
    int64_t k = FN(lane_sums)(4, x, w, ldw, depth, sum);
    FN(add_lanes)(sum, total);
    if (k < depth) {
        T rest[4] = {0};
        for (; k < depth; ++k)
            for (int i = 0; i < 4; ++i)
                rest[i] += x[k] * w[i * ldw + k];
        SDBR_UNROLL for (int j = 0; j < 4 / SMALL; ++j)
            total[j] += *(const S *)(rest + j * SMALL);
    }
    SDBR_UNROLL for (int j = 0; j < 4 / SMALL; ++j) {
        if (bias != NULL)
            total[j] += *(const S *)(bias + j * SMALL);
        if (relu) /* a NaN stays one */
            total[j] = (S)((I)total[j] & ~(I)(total[j] < (S){0}));
        *(S *)(y + j * SMALL) = total[j];
    }
}

/* relu(x @ w + bias) */
SDBR_INLINE T FN(one_dot)(const T *x, const T *w, int64_t depth, const T *bias, int relu) {
    S sum[1];
    int64_t k = FN(lane_sums)(1, x, w, 0, depth, sum);
    T total = sum[0][0];
    SDBR_UNROLL for (int j = 1; j < SMALL; ++j)
        total += sum[0][j];
    for (; k < depth; ++k)
        total += x[k] * w[k];
    if (bias != NULL)
        total += *bias;
    return relu && total < 0 ? (T)0 : total;
}

/* y[m] = act(w[m, depth] @ x[depth] + bias) of long products. */
SDBR_INLINE void FN(long_dots)(int64_t m, const T *x, const T *w, int64_t depth, const T *bias, int relu, T *y) {
    for (int64_t j = 0; j < m; j += 4) {
        const int64_t rows = m - j < 4 ? m - j : 4;
        T sums[4] = {0};
        for (int64_t k = 0; k < depth; k += VECTOR_STRETCH) {
            const int64_t part = depth - k < VECTOR_STRETCH ? depth - k : VECTOR_STRETCH;
            T some[4] = {0};
            if (rows == 4)
                FN(four_dots)(x + k, w + j * depth + k, depth, part, NULL, 0, some);
            else
                for (int i = 0; i < rows; ++i)
                    some[i] = FN(one_dot)(x + k, w + (j + i) * depth + k, part, NULL, 0);
            for (int i = 0; i < 4; ++i)
                sums[i] += some[i];
        }
        for (int i = 0; i < rows; ++i) {
            const T value = bias == NULL ? sums[i] : sums[i] + bias[j + i];
            y[j + i] = relu && value < 0 ? (T)0 : value;
        }
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
            for (; j + BLOCK <= m; j += BLOCK)
                *(B *)(c + j) += scale * *(const B *)(b + j);
            for (; j < m; ++j)
                c[j] += scale * b[j];
        } else {
            for (; j + LANES <= m; j += LANES)
                *(W *)(c + j) = scale * *(const W *)(b + j);
            for (; j + BLOCK <= m; j += BLOCK)
                *(B *)(c + j) = scale * *(const B *)(b + j);
            for (; j < m; ++j)
                c[j] = scale * b[j];
        }
    }
}

#undef LANES
#undef SMALL
#undef BLOCK
#undef W
#undef B
#undef S
#undef I
