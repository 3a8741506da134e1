/* Panels of a product for one dtype: one or two vectors wide. */

/* What happens to sums. */
typedef struct FN(conv_end) {
    int accumulate; /* add what c holds, else the bias */
    int relu;
} FN(conv_end);

#define BYTES SDBR_GEMM_BYTES
#define KIND two
#define VECTORS 2
#include "convolution/tile.h"
#undef KIND
#undef VECTORS
#define KIND one
#define VECTORS 1
#include "convolution/tile.h"
#undef KIND
#undef VECTORS
#undef BYTES

/* Columns of a full panel. */
#define PANEL ((int)(2 * SDBR_GEMM_BYTES / sizeof(T)))
/* From one row of a panel to the next where the rows are patches, see patches.h. */
#define PANEL_STEP (PANEL + PANEL / 2)

/* What Python sets memory aside for. */
SDBR_HOLDS(FN(panel), PANEL <= SDBR_CONV_WIDTH && PANEL_STEP <= SDBR_CONV_STEP);

/* The width of a panel for so many columns. */
SDBR_INLINE int FN(conv_width)(int64_t columns) { return columns <= PANEL / 2 ? PANEL / 2 : PANEL; }

/* c = end(a @ b), a[i, k] = a[i * row_step + steps[k]], where b and c have `width` columns, as conv_width gives it */
SDBR_INLINE void FN(conv_product)(int width, int64_t n, const T *a, int64_t row_step, const int64_t *steps,
                                  const T *b, int64_t ldb, int64_t depth, T *c, int64_t ldc, const FN(conv_end) *e,
                                  const T *bias) {
    if (width == PANEL)
        FN(conv_panel_two)(n, a, row_step, steps, b, ldb, depth, c, ldc, e, bias);
    else
        FN(conv_panel_one)(n, a, row_step, steps, b, ldb, depth, c, ldc, e, bias);
}

/* rows x columns elements from one matrix to another */
SDBR_INLINE void FN(conv_copy)(T *to, int64_t ld_to, const T *from, int64_t ld_from, int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows; ++i, to += ld_to, from += ld_from)
        for (int64_t j = 0; j < columns; ++j)
            to[j] = from[j];
}
