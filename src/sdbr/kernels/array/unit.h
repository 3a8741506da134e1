/* Elements chosen by indices or a condition, sums along an axis, images of another size. */
#include "array/index.h"
#include "array/resized.h"

#define SDBR_BY_DTYPE "array/kernels.h"
#include "frame/by_dtype.h"

#define SDBR_ENTRIES \
    SDBR_INDEX_ENTRIES \
    SDBR_ENTRY(scatter_add) \
    SDBR_ENTRY(cumsum) \
    SDBR_ENTRY(cumprod) \
    SDBR_ENTRY(cumprod_grad) \
    SDBR_ENTRY(prod) \
    SDBR_ENTRY(prod_grad) \
    SDBR_ENTRY(resize) \
    SDBR_ENTRY(resize_grad)
