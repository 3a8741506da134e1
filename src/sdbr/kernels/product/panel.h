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
#include "product/tile.h"
#undef KIND
#undef BYTES
#undef VECTORS

#define VECTORS 1
#define KIND one
#define BYTES SDBR_GEMM_BYTES
#include "product/tile.h"
#undef KIND
#undef BYTES
#if SDBR_GEMM_BYTES >= 32
#define KIND half
#define BYTES (SDBR_GEMM_BYTES / 2)
#include "product/tile.h"
#undef KIND
#undef BYTES
#endif
#if SDBR_GEMM_BYTES >= 64
#define KIND quarter
#define BYTES (SDBR_GEMM_BYTES / 4)
#include "product/tile.h"
#undef KIND
#undef BYTES
#endif
#undef VECTORS

#define WIDTH ((int)(SDBR_GEMM_BYTES / sizeof(T)))

/* Edge of the blocks that FN(transpose) turns. */
#define BLOCK (WIDTH * (int)sizeof(T) > 32 ? 32 / (int)sizeof(T) : WIDTH)

#define V FN(block_vector)
#define I FN(block_index)

/* value * act'(y), y = act(x) */
SDBR_INLINE T FN(masked)(T value, T y, int activation) {
    if (activation == SDBR_RELU)
        return value * (T)(y > 0);
    return activation == SDBR_SIGMOID ? value * y * ((T)1 - y) : value * ((T)1 - y * y);
}

/* panel[k, j] = b[k * ldb + j] for j < columns, else 0; panel[depth, width] */
static void FN(pack_rows)(T *panel, int width, const T *b, int64_t ldb, int64_t depth, int columns) {
    for (int64_t k = 0; k < depth; ++k, panel += width, b += ldb) {
        for (int j = 0; j < columns; ++j)
            panel[j] = b[j];
        for (int j = columns; j < width; ++j)
            panel[j] = 0;
    }
}

/* Tiles store whole vectors: here `c` has room for `width` columns per row. */
SDBR_INLINE void FN(wide_panel)(int width, int64_t n, const T *a, int64_t row_step, int64_t a_step, const T *b,
                                int64_t ldb, int64_t depth, T *c, int64_t ldc, const FN(epilogue) *e,
                                const T *bias, const T *mask) {
    if (width == 2 * WIDTH)
        FN(panel_two)(n, a, row_step, a_step, b, ldb, depth, c, ldc, e, bias, mask);
#if SDBR_GEMM_BYTES >= 64
    else if (width == WIDTH / 2)
        FN(panel_half)(n, a, row_step, a_step, b, ldb, depth, c, ldc, e, bias, mask);
#endif
    else
        FN(panel_one)(n, a, row_step, a_step, b, ldb, depth, c, ldc, e, bias, mask);
}

/* The width of the next panel when `columns` are left. Half a vector of 32 bytes gains nothing. */
SDBR_INLINE int FN(panel_width)(int64_t columns) {
    if (columns >= 2 * WIDTH)
        return 2 * WIDTH;
    return SDBR_GEMM_BYTES >= 64 && columns <= WIDTH / 2 ? WIDTH / 2 : WIDTH;
}

/* rows x columns elements from one matrix to another */
static void FN(copy_part)(T *to, int64_t ld_to, const T *from, int64_t ld_from, int64_t rows, int columns) {
    for (int64_t i = 0; i < rows; ++i, to += ld_to, from += ld_from)
        for (int j = 0; j < columns; ++j)
            to[j] = from[j];
}

#define SDBR_PART_ROWS 32

/* A panel whose last columns do not exist: in blocks of rows that have room for them. */
static void FN(part_panel)(int width, int columns, int64_t n, const T *a, int64_t row_step, int64_t a_step,
                           const T *b, int64_t depth, T *c, int64_t ldc, const FN(epilogue) *epilogue, const T *bias,
                           const T *mask) {
    T block[SDBR_PART_ROWS * WIDTH] __attribute__((aligned(64)));
    T masks[SDBR_PART_ROWS * WIDTH] __attribute__((aligned(64))) = {0};
    T biases[WIDTH] = {0};
    FN(epilogue) e = *epilogue;
    if (width > WIDTH) /* a panel of two vectors is never in part */
        __builtin_unreachable();
    e.ld_mask = width;
    if (bias != NULL)
        FN(copy_part)(biases, width, bias, columns, 1, columns);
    for (int64_t i = 0; i < n; i += SDBR_PART_ROWS) {
        const int64_t rows = n - i < SDBR_PART_ROWS ? n - i : SDBR_PART_ROWS;
        if (e.accumulate)
            FN(copy_part)(block, width, c + i * ldc, ldc, rows, columns);
        if (mask != NULL)
            FN(copy_part)(masks, width, mask + i * epilogue->ld_mask, epilogue->ld_mask, rows, columns);
        FN(wide_panel)(width, rows, a + i * row_step, row_step, a_step, b, width, depth, block, width, &e,
                       bias == NULL ? NULL : biases, mask == NULL ? NULL : masks);
        FN(copy_part)(c + i * ldc, ldc, block, width, rows, columns);
    }
}

/* c = block with its bias for BLOCK <= columns < 2 * BLOCK: two vectors that overlap. */
static void FN(store_vectors)(const T *block, int64_t rows, int columns, T *c, int64_t ldc, int relu, const T *bias) {
    const int second = columns - BLOCK;
    V first_bias = {0}, second_bias = {0};
    if (bias != NULL) {
        first_bias = *(const V *)bias;
        second_bias = *(const V *)(bias + second);
    }
    for (int64_t i = 0; i < rows; ++i, block += WIDTH, c += ldc) {
        V x = *(const V *)block + first_bias;
        V y = *(const V *)(block + second) + second_bias;
        if (relu) { /* a NaN stays one */
            x = (V)((I)x & ~(I)(x < (V){0}));
            y = (V)((I)y & ~(I)(y < (V){0}));
        }
        *(V *)c = x;
        *(V *)(c + second) = y;
    }
}

/* c = epilogue(block), the rows of which are WIDTH long */
static void FN(store_rows)(const T *block, int64_t rows, int columns, T *c, int64_t ldc, const FN(epilogue) *e,
                           const T *bias, const T *mask) {
    if (columns >= BLOCK && !e->accumulate && mask == NULL) {
        FN(store_vectors)(block, rows, columns, c, ldc, e->relu, bias);
        return;
    }
    for (int64_t i = 0; i < rows; ++i, block += WIDTH, c += ldc)
        for (int j = 0; j < columns; ++j) {
            T value = block[j];
            if (e->accumulate)
                value += c[j];
            if (bias != NULL)
                value += bias[j];
            if (e->relu)
                value = value < 0 ? (T)0 : value;
            if (mask != NULL)
                value = FN(masked)(value, mask[i * e->ld_mask + j], e->masked);
            c[j] = value;
        }
}

/* A few columns of c: computes the transpose, whose rows are as long as c has rows. */
static void FN(thin_product)(int64_t n, int columns, int64_t depth, const T *a, int64_t row_step, int64_t a_step,
                             const T *b, int64_t ldb, int transposed, T *panel, T *c, int64_t ldc,
                             const FN(epilogue) *epilogue, const T *bias, const T *mask) {
    T block[WIDTH * 2 * WIDTH] __attribute__((aligned(64)));
    T turned[WIDTH * 2 * WIDTH] __attribute__((aligned(64)));
    FN(epilogue) e = {NULL, NULL, 0, 0, 0, 0};
    for (int64_t i = 0; i < n;) {
        const int width = FN(panel_width)(n - i);
        const int rows = n - i < width ? (int)(n - i) : width;
        int64_t k = 0;
        do {
            const int64_t part = depth - k < SDBR_GEMM_DEPTH ? depth - k : SDBR_GEMM_DEPTH;
            const T *from = a + i * row_step + k * a_step;
            int64_t step = a_step;
            e.accumulate = k > 0;
            if (a_step == 1 && row_step != 1) {
                FN(pack_columns)(panel, width, from, row_step, part, rows);
                from = panel;
                step = width;
            } else if (rows < width) {
                FN(pack_rows)(panel, width, from, a_step, part, rows);
                from = panel;
                step = width;
            }
            FN(wide_panel)(width, columns, b + (transposed ? k : k * ldb), transposed ? ldb : 1, transposed ? 1 : ldb,
                           from, step, part, block, width, &e, NULL, NULL);
            k += part;
        } while (k < depth);
        for (int j = 0; j < columns; j += BLOCK)
            for (int l = 0; l < width; l += BLOCK)
                FN(transpose)(block + j * width + l, width, columns - j < BLOCK ? columns - j : BLOCK,
                              turned + l * WIDTH + j, WIDTH);
        FN(store_rows)(turned, rows, columns, c + i * ldc, ldc, epilogue, bias,
                       mask == NULL ? NULL : mask + i * epilogue->ld_mask);
        i += rows;
    }
}

/* One block of the inner dimension for all full panels of c, and for the rest unless it is thin. */
static void FN(block_product)(int64_t n, int64_t m, int64_t depth, const T *a, int64_t row_step, int64_t a_step,
                              const T *b, int64_t ldb, int transposed, T *panel, T *c, int64_t ldc,
                              const FN(epilogue) *e) {
    for (int64_t j = 0; j < m;) {
        const int width = FN(panel_width)(m - j);
        const int columns = m - j < width ? (int)(m - j) : width;
        const T *bias = e->bias == NULL ? NULL : e->bias + j;
        const T *mask = e->mask == NULL ? NULL : e->mask + j;
        const T *from = b + j;
        int64_t step = ldb;
        if (transposed) {
            FN(pack_columns)(panel, width, b + j * ldb, ldb, depth, columns);
            from = panel;
            step = width;
        } else if (columns < width) {
            FN(pack_rows)(panel, width, from, ldb, depth, columns);
            from = panel;
            step = width;
        }
        if (columns == width)
            FN(wide_panel)(width, n, a, row_step, a_step, from, step, depth, c + j, ldc, e, bias, mask);
        else
            FN(part_panel)(width, columns, n, a, row_step, a_step, from, depth, c + j, ldc, e, bias, mask);
        j += columns;
    }
}

/* c[i, j] = epilogue(sum over k of a[i * row_step + k * a_step] * b[k, j]), c[n, m]; b[k, j] is at
 * b[k * ldb + j], or at b[k + j * ldb] when it is given transposed. */
static void FN(plain_product)(int64_t n, int64_t m, int64_t depth, const T *a, int64_t row_step, int64_t a_step,
                              const T *b, int64_t ldb, int transposed, T *c, int64_t ldc,
                              const FN(epilogue) *epilogue) {
    T panel[SDBR_GEMM_DEPTH * 2 * WIDTH] __attribute__((aligned(64)));
    const int thin = n >= WIDTH ? (int)(m % WIDTH) : 0;
    const int64_t wide = m - thin;
    for (int64_t k = 0; wide > 0 && (k < depth || k == 0); k += SDBR_GEMM_DEPTH) { /* once when depth is 0 */
        const int last = depth - k <= SDBR_GEMM_DEPTH;
        FN(epilogue) e = *epilogue;
        e.accumulate = k > 0 || epilogue->accumulate;
        if (!last) {
            e.bias = e.mask = NULL;
            e.relu = 0;
        }
        FN(block_product)(n, wide, last ? depth - k : SDBR_GEMM_DEPTH, a + k * a_step, row_step, a_step,
                          b + (transposed ? k : k * ldb), ldb, transposed, panel, c, ldc, &e);
    }
    if (thin > 0)
        FN(thin_product)(n, thin, depth, a, row_step, a_step, b + (transposed ? wide * ldb : wide), ldb, transposed,
                         panel, c + wide, ldc, epilogue, epilogue->bias == NULL ? NULL : epilogue->bias + wide,
                         epilogue->mask == NULL ? NULL : epilogue->mask + wide);
}

#include "product/blocks.h"

#undef SDBR_PART_ROWS
#undef WIDTH
#undef BLOCK
#undef V
#undef I
