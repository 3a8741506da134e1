/* c = epilogue(a @ b) by panels of columns, for one dtype. */

/* What happens to the sums before they are stored, in this order. */
typedef struct FN(epilogue) {
    const T *bias; /* one per column, or NULL */
    const T *mask; /* output of the activation whose derivative is applied, or NULL */
    int64_t ld_mask;
    int masked;     /* that activation */
    int accumulate; /* add what c holds */
    int relu;
} FN(epilogue);

#define KIND two
#define BYTES SDBR_GEMM_BYTES
#define VECTORS 2
#include "gemm_tile.h"
#undef KIND
#undef BYTES
#undef VECTORS

#define VECTORS 1
#define KIND one
#define BYTES SDBR_GEMM_BYTES
#include "gemm_tile.h"
#undef KIND
#undef BYTES
#if SDBR_GEMM_BYTES >= 32
#define KIND half
#define BYTES (SDBR_GEMM_BYTES / 2)
#include "gemm_tile.h"
#undef KIND
#undef BYTES
#endif
#if SDBR_GEMM_BYTES >= 64
#define KIND quarter
#define BYTES (SDBR_GEMM_BYTES / 4)
#include "gemm_tile.h"
#undef KIND
#undef BYTES
#endif
#undef VECTORS

#define WIDTH ((int)(SDBR_GEMM_BYTES / sizeof(T)))

/* panel[k, j] = b[k * depth_step + j * column_step] for j < columns, else 0; panel has `width` columns. */
static void FN(pack)(T *panel, int width, const T *b, int64_t depth_step, int64_t column_step, int64_t depth,
                     int columns) {
    if (column_step == 1) {
        for (int64_t k = 0; k < depth; ++k) {
            for (int j = 0; j < columns; ++j)
                panel[k * width + j] = b[k * depth_step + j];
            for (int j = columns; j < width; ++j)
                panel[k * width + j] = 0;
        }
        return;
    }
    for (int j = 0; j < columns; ++j)
        for (int64_t k = 0; k < depth; ++k)
            panel[k * width + j] = b[k * depth_step + j * column_step];
    for (int j = columns; j < width; ++j)
        for (int64_t k = 0; k < depth; ++k)
            panel[k * width + j] = 0;
}

/* Tiles store whole vectors: here `c` has room for `width` columns per row. */
SDBR_INLINE void FN(wide_panel)(int width, int64_t n, const T *a, int64_t row_step, int64_t depth_step, const T *b,
                                int64_t ldb, int64_t depth, T *c, int64_t ldc, const FN(epilogue) *e,
                                const T *bias, const T *mask) {
    if (width == 2 * WIDTH)
        FN(panel_two)(n, a, row_step, depth_step, b, ldb, depth, c, ldc, e, bias, mask);
    else if (width == WIDTH)
        FN(panel_one)(n, a, row_step, depth_step, b, ldb, depth, c, ldc, e, bias, mask);
#if SDBR_GEMM_BYTES >= 64
    else if (width == WIDTH / 4)
        FN(panel_quarter)(n, a, row_step, depth_step, b, ldb, depth, c, ldc, e, bias, mask);
#endif
#if SDBR_GEMM_BYTES >= 32
    else
        FN(panel_half)(n, a, row_step, depth_step, b, ldb, depth, c, ldc, e, bias, mask);
#endif
}

/* The width of the next panel when `columns` are left. */
SDBR_INLINE int FN(panel_width)(int64_t columns) {
    if (columns >= 2 * WIDTH)
        return 2 * WIDTH;
#if SDBR_GEMM_BYTES >= 64
    if (columns <= WIDTH / 4)
        return WIDTH / 4;
#endif
#if SDBR_GEMM_BYTES >= 32
    if (columns <= WIDTH / 2)
        return WIDTH / 2;
#endif
    return WIDTH;
}

/* The epilogue for the columns of a panel that are not a whole vector, from a copy in `part`. */
static void FN(store_part)(const T *part, int width, int64_t rows, int columns, T *c, int64_t ldc,
                           const FN(epilogue) *e, const T *bias, const T *mask) {
    for (int64_t i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j) {
            T value = part[i * width + j];
            if (e->accumulate)
                value += c[i * ldc + j];
            if (bias != NULL)
                value += bias[j];
            if (e->relu)
                value = value < 0 ? (T)0 : value;
            if (mask != NULL) {
                const T y = mask[i * e->ld_mask + j];
                if (e->masked == SDBR_RELU)
                    value = y > 0 ? value : (T)0;
                else if (e->masked == SDBR_SIGMOID)
                    value = value * y * ((T)1 - y);
                else
                    value = value * ((T)1 - y * y);
            }
            c[i * ldc + j] = value;
        }
}

#define SDBR_PART_ROWS 64

/* c[i, j] = epilogue(sum over k of a[i * row_step + k * a_step] * b[k * b_step + j * column_step]);
 * c[n, m] with row length ldc. Sums run over k in order, in one chain per element and block. */
static void FN(product)(int64_t n, int64_t m, int64_t depth, const T *a, int64_t row_step, int64_t a_step,
                        const T *b, int64_t b_step, int64_t column_step, T *c, int64_t ldc,
                        const FN(epilogue) *epilogue) {
    T panel[SDBR_GEMM_DEPTH * 2 * WIDTH] __attribute__((aligned(64)));
    const FN(epilogue) plain = {NULL, NULL, 0, 0, 0, 0};
    int64_t k = 0;
    do { /* once even when depth is 0 */
        const int64_t part = depth - k < SDBR_GEMM_DEPTH ? depth - k : SDBR_GEMM_DEPTH;
        FN(epilogue) e = *epilogue;
        e.accumulate = k > 0 || epilogue->accumulate;
        if (k + part < depth) {
            e.bias = e.mask = NULL;
            e.relu = 0;
        }
        for (int64_t j = 0; j < m;) {
            const int width = FN(panel_width)(m - j);
            const int columns = m - j < width ? (int)(m - j) : width;
            const T *from = b + k * b_step + j * column_step;
            const T *bias = e.bias == NULL ? NULL : e.bias + j;
            const T *mask = e.mask == NULL ? NULL : e.mask + j;
            int64_t ldb = b_step;
            if (columns < width || column_step != 1) {
                FN(pack)(panel, width, from, b_step, column_step, part, columns);
                from = panel;
                ldb = width;
            }
            if (columns == width) {
                FN(wide_panel)(width, n, a + k * a_step, row_step, a_step, from, ldb, part, c + j, ldc, &e, bias,
                               mask);
            } else {
                T block[SDBR_PART_ROWS * WIDTH] __attribute__((aligned(64)));
                for (int64_t i = 0; i < n; i += SDBR_PART_ROWS) {
                    const int64_t rows = n - i < SDBR_PART_ROWS ? n - i : SDBR_PART_ROWS;
                    FN(wide_panel)(width, rows, a + i * row_step + k * a_step, row_step, a_step, from, ldb, part,
                                   block, width, &plain, NULL, NULL);
                    FN(store_part)(block, width, rows, columns, c + i * ldc + j, ldc, &e, bias,
                                   mask == NULL ? NULL : mask + i * e.ld_mask);
                }
            }
            j += columns;
        }
        k += part;
    } while (k < depth);
}

#undef SDBR_PART_ROWS
#undef WIDTH
