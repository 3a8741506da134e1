/* Tiles of a product for one dtype and width: rows x (VECTORS vectors of BYTES bytes).
 * Included with T, SUFFIX, INT, KIND (part of the names), BYTES and VECTORS defined.
 * Unlike the tiles of product/tile.h they have a bias per row, and any steps along the rows of a. */

#define TILE(name) FN(SDBR_CAT(name, KIND))
#define V TILE(conv_vector)
#define I TILE(conv_bits)
#define LANES ((int)(BYTES / sizeof(T)))

typedef T V __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));
typedef INT I __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));

/* c[i, :] = act(sum over k of a[i * row_step + steps[k]] * b[k, :] + what c[i, :] holds, or bias[i], or 0) */
SDBR_INLINE void TILE(conv_body)(const int rows, const T *a, int64_t row_step, const int64_t *steps, const T *b,
                                 int64_t ldb, int64_t depth, T *c, int64_t ldc, const FN(conv_end) *e, const T *bias) {
    V sum[SDBR_CONV_TILE][VECTORS];
    SDBR_UNROLL for (int i = 0; i < rows; ++i)
        SDBR_UNROLL for (int j = 0; j < VECTORS; ++j)
            sum[i][j] = (V){0} + (e->accumulate || bias == NULL ? (T)0 : bias[i]);
    for (int64_t k = 0; k < depth; ++k, b += ldb) {
        const T *from = a + steps[k];
        V row[VECTORS];
        SDBR_UNROLL for (int j = 0; j < VECTORS; ++j)
            row[j] = *(const V *)(b + j * LANES);
        SDBR_UNROLL for (int i = 0; i < rows; ++i) {
            const T scale = from[i * row_step];
            SDBR_UNROLL for (int j = 0; j < VECTORS; ++j)
                sum[i][j] += scale * row[j];
        }
    }
    if (e->accumulate) /* at the end: a short sum has seen less rounding than one that begins with c */
        SDBR_UNROLL for (int i = 0; i < rows; ++i)
            SDBR_UNROLL for (int j = 0; j < VECTORS; ++j)
                sum[i][j] += *(const V *)(c + i * ldc + j * LANES);
    if (e->relu) /* a NaN stays one */
        SDBR_UNROLL for (int i = 0; i < rows; ++i)
            SDBR_UNROLL for (int j = 0; j < VECTORS; ++j)
                sum[i][j] = (V)((I)sum[i][j] & ~(I)(sum[i][j] < (V){0}));
    SDBR_UNROLL for (int i = 0; i < rows; ++i)
        SDBR_UNROLL for (int j = 0; j < VECTORS; ++j)
            *(V *)(c + i * ldc + j * LANES) = sum[i][j];
}

/* The same with the number of rows known to the compiler. */
#define SDBR_TILE(name, rows)                                                                                   \
    static void TILE(name)(const T *a, int64_t row_step, const int64_t *steps, const T *b, int64_t ldb,         \
                           int64_t depth, T *c, int64_t ldc, const FN(conv_end) *e, const T *bias) {            \
        TILE(conv_body)(rows, a, row_step, steps, b, ldb, depth, c, ldc, e, bias);                              \
    }
SDBR_TILE(conv_tile, SDBR_CONV_TILE)
#if SDBR_CONV_TILE > 8
SDBR_TILE(conv_tile8, 8)
#endif
SDBR_TILE(conv_tile4, 4)
SDBR_TILE(conv_tile2, 2)
SDBR_TILE(conv_tile1, 1)
#undef SDBR_TILE

/* All rows of c for the columns of one panel. */
static __attribute__((unused)) void TILE(conv_panel)(int64_t n, const T *a, int64_t row_step,
                                                     const int64_t *steps, const T *b, int64_t ldb, int64_t depth, T *c, int64_t ldc,
                                                     const FN(conv_end) *e, const T *bias) {
    int64_t i = 0;
#define SDBR_ROWS(name, rows)                                                                        \
    for (; i + (rows) <= n; i += (rows))                                                             \
        TILE(name)(a + i * row_step, row_step, steps, b, ldb, depth, c + i * ldc, ldc, e,           \
                   bias == NULL ? NULL : bias + i);
    SDBR_ROWS(conv_tile, SDBR_CONV_TILE)
#if SDBR_CONV_TILE > 8
    SDBR_ROWS(conv_tile8, 8)
#endif
    SDBR_ROWS(conv_tile4, 4)
    SDBR_ROWS(conv_tile2, 2)
    SDBR_ROWS(conv_tile1, 1)
#undef SDBR_ROWS
}

#undef TILE
#undef V
#undef I
#undef LANES
