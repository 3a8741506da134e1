/* Pooling. */
#include "pooling/shape.h"

#define SDBR_BY_DTYPE "pooling/kernels.h"
#include "frame/by_dtype.h"

#define SDBR_ENTRIES \
    SDBR_ENTRY(max_pooling) \
    SDBR_ENTRY(max_pooling_index) \
    SDBR_ENTRY(max_pooling_grad) \
    SDBR_ENTRY(max_pooling_grad_checked) \
    SDBR_ENTRY(max_pooling_pick) \
    SDBR_ENTRY(average_pooling) \
    SDBR_ENTRY(average_pooling_grad)
