/* Normalization: moments of batches, groups and rows, and what is scaled by them. */
#include "math/power_f4.h"
#include "math/math_f8.h"

#define SDBR_BY_DTYPE "normalization/kernels.h"
#include "frame/by_dtype.h"

#define SDBR_BATCH(X) \
    X(batch_norm) \
    X(batch_norm_grad) \
    X(batch_norm_relu_grad) \
    X(batch_norm_sums) \
    X(fixed_batch_norm)

/* One kernel for planes that are long enough to be vectors, one for the others. */
#define SDBR_BATCH_ENTRY(name) SDBR_ENTRY(name##_planes) SDBR_ENTRY(name##_columns)

#define SDBR_ENTRIES \
    SDBR_BATCH(SDBR_BATCH_ENTRY) \
    SDBR_ENTRY(update_statistics) \
    SDBR_ENTRY(group_norm_elements) \
    SDBR_ENTRY(group_norm_planes) \
    SDBR_ENTRY(group_norm_grad_elements) \
    SDBR_ENTRY(group_norm_grad_planes) \
    SDBR_ENTRY(local_response) \
    SDBR_ENTRY(local_response_grad) \
    SDBR_ENTRY(local_response_kept_grad)
