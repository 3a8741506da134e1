/* Losses, evaluation, and picking by label. */
#include "math/power_f4.h"
#include "math/math_f8.h"
#include "frame/label.h"
#include "frame/pairs.h"
#include "runtime/threads.h"

/* So many scores of a loss are worth a thread. */
#define SDBR_SCORES 65536

#define SDBR_BY_DTYPE "loss/kernels.h"
#include "frame/by_dtype.h"

#define SDBR_ENTRIES \
    SDBR_ENTRY(softmax_cross_entropy) \
    SDBR_ENTRY(softmax_cross_entropy_grad) \
    SDBR_ENTRY(softmax_cross_entropy_no_reduce) \
    SDBR_ENTRY(softmax_cross_entropy_no_reduce_grad) \
    SDBR_ENTRY(sigmoid_cross_entropy) \
    SDBR_ENTRY(sigmoid_cross_entropy_grad) \
    SDBR_ENTRY(sigmoid_cross_entropy_no_reduce) \
    SDBR_ENTRY(sigmoid_cross_entropy_no_reduce_grad) \
    SDBR_ENTRY(mean_squared_error) \
    SDBR_ENTRY(mean_squared_error_grad) \
    SDBR_ENTRY(mean_absolute_error) \
    SDBR_ENTRY(mean_absolute_error_grad) \
    SDBR_ENTRY(accuracy) \
    SDBR_ENTRY(argmax_op) \
    SDBR_ENTRY(argmin_op) \
    SDBR_ENTRY(select_item) \
    SDBR_ENTRY(negate_item) \
    SDBR_ENTRY(select_item_grad)
