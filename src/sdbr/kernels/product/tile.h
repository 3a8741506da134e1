/* Tiles of a product for one dtype and width: rows x (VECTORS vectors of BYTES bytes).
 * Included with T, SUFFIX, INT, KIND (part of the names), BYTES and VECTORS defined. */

#define TILE(name) FN(SDBR_CAT(name, KIND))
#define V TILE(vector)
#define I TILE(bits)
#define LANES ((int)(BYTES / sizeof(T)))

typedef T V __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));
typedef INT I __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));

/* c[i, :] = epilogue(sum[i]) */
SDBR_INLINE void TILE(store)(const int rows, V sum[][VECTORS], T *c, int64_t ldc, const FN(epilogue) *e, const T *bias,
                             const T *mask) {
    if (e->accumulate)
        SDBR_UNROLL for (int i = 0; i < rows; ++i)
            SDBR_UNROLL for (int j = 0; j < VECTORS; ++j)
                sum[i][j] += *(const V *)(c + i * ldc + j * LANES);
    if (bias != NULL)
        SDBR_UNROLL for (int j = 0; j < VECTORS; ++j) {
            const V row = *(const V *)(bias + j * LANES);
            SDBR_UNROLL for (int i = 0; i < rows; ++i)
                sum[i][j] += row;
        }
    if (e->relu) /* a NaN stays one */
        SDBR_UNROLL for (int i = 0; i < rows; ++i)
            SDBR_UNROLL for (int j = 0; j < VECTORS; ++j)
                sum[i][j] = (V)((I)sum[i][j] & ~(I)(sum[i][j] < (V){0}));
    if (mask != NULL)
        SDBR_UNROLL for (int i = 0; i < rows; ++i)
            SDBR_UNROLL for (int j = 0; j < VECTORS; ++j) {
                const V y = *(const V *)(mask + i * e->ld_mask + j * LANES);
                if (e->masked == SDBR_RELU)
                    sum[i][j] *= (V)((I)((V){0} + (T)1) & (I)(y > (V){0}));
                else if (e->masked == SDBR_SIGMOID)
                    sum[i][j] = sum[i][j] * y * ((T)1 - y);
                else
                    sum[i][j] = sum[i][j] * ((T)1 - y * y);
            }
    SDBR_UNROLL for (int i = 0; i < rows; ++i)
        SDBR_UNROLL for (int j = 0; j < VECTORS; ++j)
            *(V *)(c + i * ldc + j * LANES) = sum[i][j];
}

/* sum[i] = sum over k of a[i * row_step + k * a_step] * b[k, :] */
SDBR_INLINE void TILE(body)(const int rows, const T *a, int64_t row_step, int64_t a_step, const T *b, int64_t ldb,
                            int64_t depth, T *c, int64_t ldc, const FN(epilogue) *e, const T *bias, const T *mask) {
    V sum[SDBR_GEMM_ROWS][VECTORS];
    SDBR_UNROLL for (int i = 0; i < rows; ++i)
        SDBR_UNROLL for (int j = 0; j < VECTORS; ++j)
            sum[i][j] = (V){0};
    for (int64_t k = 0; k < depth; ++k, a += a_step, b += ldb) {
        V row[VECTORS];
        SDBR_UNROLL for (int j = 0; j < VECTORS; ++j)
            row[j] = *(const V *)(b + j * LANES);
        SDBR_UNROLL for (int i = 0; i < rows; ++i) {
            const T scale = a[i * row_step];
            SDBR_UNROLL for (int j = 0; j < VECTORS; ++j)
                sum[i][j] += scale * row[j];
        }
    }
    TILE(store)(rows, sum, c, ldc, e, bias, mask);
}

/* The same with the number of rows known to the compiler. */
#define SDBR_TILE(name, rows)                                                                        \
    static void TILE(name)(const T *a, int64_t row_step, int64_t a_step, const T *b, int64_t ldb,    \
                           int64_t depth, T *c, int64_t ldc, const FN(epilogue) *e, const T *bias,   \
                           const T *mask) {                                                          \
        TILE(body)(rows, a, row_step, a_step, b, ldb, depth, c, ldc, e, bias, mask);                 \
    }
SDBR_TILE(tile, SDBR_GEMM_ROWS)
SDBR_TILE(tile4, 4)
SDBR_TILE(tile2, 2)
#undef SDBR_TILE

/* One row: four chains of sums, because one would wait for the latency of each addition. */
static void TILE(row)(const T *a, int64_t a_step, const T *b, int64_t ldb, int64_t depth, T *c, const FN(epilogue) *e,
                      const T *bias, const T *mask) {
    V sum[4][VECTORS];
    SDBR_UNROLL for (int i = 0; i < 4; ++i)
        SDBR_UNROLL for (int j = 0; j < VECTORS; ++j)
            sum[i][j] = (V){0};
    int64_t k = 0;
    for (; k + 4 <= depth; k += 4)
        SDBR_UNROLL for (int i = 0; i < 4; ++i)
            SDBR_UNROLL for (int j = 0; j < VECTORS; ++j)
                sum[i][j] += a[(k + i) * a_step] * *(const V *)(b + (k + i) * ldb + j * LANES);
    for (; k < depth; ++k)
        SDBR_UNROLL for (int j = 0; j < VECTORS; ++j)
            sum[0][j] += a[k * a_step] * *(const V *)(b + k * ldb + j * LANES);
    SDBR_UNROLL for (int j = 0; j < VECTORS; ++j)
        sum[0][j] = (sum[0][j] + sum[1][j]) + (sum[2][j] + sum[3][j]);
    TILE(store)(1, sum, c, 0, e, bias, mask);
}

/* All rows of c for the columns of one panel. */
static __attribute__((unused)) void TILE(panel)(int64_t n, const T *a, int64_t row_step, int64_t a_step, const T *b, int64_t ldb,
                        int64_t depth, T *c, int64_t ldc, const FN(epilogue) *e, const T *bias, const T *mask) {
    int64_t i = 0;
#define SDBR_ROWS(name, rows)                                                                        \
    for (; i + (rows) <= n; i += (rows))                                                             \
        TILE(name)(a + i * row_step, row_step, a_step, b, ldb, depth, c + i * ldc, ldc, e, bias,     \
                   mask == NULL ? NULL : mask + i * e->ld_mask);
    SDBR_ROWS(tile, SDBR_GEMM_ROWS)
    SDBR_ROWS(tile4, 4)
    SDBR_ROWS(tile2, 2)
#undef SDBR_ROWS
    for (; i < n; ++i)
        TILE(row)(a + i * row_step, a_step, b, ldb, depth, c + i * ldc, e, bias,
                  mask == NULL ? NULL : mask + i * e->ld_mask);
}

#undef TILE
#undef V
#undef I
#undef LANES
