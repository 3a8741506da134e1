/* Large products for one dtype: blocks of a, packed for the tiles, stay in the second-level cache
 * while the panels of b pass by (Goto and van de Geijn, Anatomy of high-performance matrix
 * multiplication, 2008). Included by panel.h. */

/* Rows of a in a block: with 256 numbers each that is about 200 KiB of float. */
#define BLOCK_ROWS (SDBR_GEMM_ROWS * 24)

/* packed[i / R, k, i % R] = a[i * row_step + k * a_step], R = SDBR_GEMM_ROWS; n is a multiple of R */
static void FN(pack_block)(T *packed, int64_t n, const T *a, int64_t row_step, int64_t a_step, int64_t depth) {
    if (row_step == 1) { /* along the rows first: the next k may be on another page */
        for (int64_t k = 0; k < depth; ++k)
            for (int64_t i = 0; i < n; i += SDBR_GEMM_ROWS)
                memcpy(packed + i * depth + k * SDBR_GEMM_ROWS, a + k * a_step + i, SDBR_GEMM_ROWS * sizeof(T));
        return;
    }
    for (int64_t i = 0; i < n; i += SDBR_GEMM_ROWS, packed += SDBR_GEMM_ROWS * depth, a += SDBR_GEMM_ROWS * row_step) {
        if (a_step == 1 && SDBR_GEMM_ROWS % BLOCK == 0)
            FN(pack_columns)(packed, SDBR_GEMM_ROWS, a, row_step, depth, SDBR_GEMM_ROWS);
        else
            for (int64_t k = 0; k < depth; ++k)
                SDBR_UNROLL for (int r = 0; r < SDBR_GEMM_ROWS; ++r)
                    packed[k * SDBR_GEMM_ROWS + r] = a[r * row_step + k * a_step];
    }
}

/* The block [rows, depth] of a times all panels of two vectors; rows is a multiple of those of a tile. */
static void FN(packed_product)(int64_t rows, int64_t m, int64_t depth, const T *packed, const T *b, int64_t ldb,
                               int transposed, T *panel, T *c, int64_t ldc, const FN(epilogue) *e) {
    for (int64_t j = 0; j < m; j += 2 * WIDTH) {
        const T *bias = e->bias == NULL ? NULL : e->bias + j;
        if (transposed)
            FN(pack_columns)(panel, 2 * WIDTH, b + j * ldb, ldb, depth, 2 * WIDTH);
        else
            FN(pack_rows)(panel, 2 * WIDTH, b + j, ldb, depth, 2 * WIDTH);
        for (int64_t i = 0; i < rows; i += SDBR_GEMM_ROWS)
            FN(SDBR_CAT(tile, two))(packed + i * depth, 1, SDBR_GEMM_ROWS, panel, 2 * WIDTH, depth, c + i * ldc + j, ldc, e, bias,
                         e->mask == NULL ? NULL : e->mask + i * e->ld_mask + j);
    }
}

/* c = epilogue(a @ b) as plain_product; rows and columns that fill no tile are left to it. */
static void FN(blocked_product)(int64_t n, int64_t m, int64_t depth, const T *a, int64_t row_step, int64_t a_step,
                                const T *b, int64_t ldb, int transposed, T *c, int64_t ldc, T *packed,
                                const FN(epilogue) *epilogue) {
    T panel[SDBR_GEMM_DEPTH * 2 * WIDTH] __attribute__((aligned(64)));
    const int64_t wide = m - m % (2 * WIDTH), full = n - n % SDBR_GEMM_ROWS;
    FN(epilogue) e = *epilogue;
    for (int64_t k = 0; k < depth; k += SDBR_GEMM_DEPTH) {
        const int last = depth - k <= SDBR_GEMM_DEPTH;
        const int64_t part = last ? depth - k : SDBR_GEMM_DEPTH;
        for (int64_t i = 0; i < full; i += BLOCK_ROWS) {
            const int64_t rows = full - i < BLOCK_ROWS ? full - i : BLOCK_ROWS;
            e.accumulate = k > 0 || epilogue->accumulate;
            e.bias = last ? epilogue->bias : NULL;
            e.mask = last && epilogue->mask != NULL ? epilogue->mask + i * e.ld_mask : NULL;
            e.relu = last && epilogue->relu;
            FN(pack_block)(packed, rows, a + i * row_step + k * a_step, row_step, a_step, part);
            FN(packed_product)(rows, wide, part, packed, b + (transposed ? k : k * ldb), ldb, transposed, panel,
                               c + i * ldc, ldc, &e);
        }
    }
    if (wide < m) {
        e = *epilogue;
        e.bias = e.bias == NULL ? NULL : e.bias + wide;
        e.mask = e.mask == NULL ? NULL : e.mask + wide;
        FN(plain_product)(full, m - wide, depth, a, row_step, a_step, b + (transposed ? wide * ldb : wide), ldb, transposed,
                          c + wide, ldc, &e);
    }
    if (full < n) {
        e = *epilogue;
        e.mask = e.mask == NULL ? NULL : e.mask + full * e.ld_mask;
        FN(plain_product)(n - full, m, depth, a + full * row_step, row_step, a_step, b, ldb, transposed, c + full * ldc, ldc, &e);
    }
}

/* Whether packing a pays. Rows of a that are read along the inner dimension, with b packed anyway,
 * are as good as packed ones while a block of them stays in the cache. */
static int FN(packing_pays)(int64_t n, int64_t m, int64_t depth, int64_t a_step, int transposed) {
    if (n < 4 * SDBR_GEMM_ROWS || m < 6 * WIDTH || depth < 16 || n * m * depth < SDBR_BLOCKED_WORK)
        return 0;
    return !transposed || a_step != 1 || n > SDBR_PLAIN_ROWS;
}

/* c[n, m] = epilogue(a @ b); see plain_product. */
static void FN(product)(int64_t n, int64_t m, int64_t depth, const T *a, int64_t row_step, int64_t a_step,
                        const T *b, int64_t ldb, int transposed, T *c, const FN(epilogue) *epilogue) {
    T *packed = NULL;
    if (FN(packing_pays)(n, m, depth, a_step, transposed))
        packed = sdbr_workspace(BLOCK_ROWS * SDBR_GEMM_DEPTH * sizeof(T));
    if (packed != NULL)
        FN(blocked_product)(n, m, depth, a, row_step, a_step, b, ldb, transposed, c, m, packed, epilogue);
    else
        FN(plain_product)(n, m, depth, a, row_step, a_step, b, ldb, transposed, c, m, epilogue);
}

#undef BLOCK_ROWS
