/* Reductions and row ops along an axis, losses, random draws, and the op that does nothing. */
#include "math_f4.h"
#include "math_f8.h"
#include "label.h"
#include "control.h"
#include "pool.h"

/* So many scores of a loss are worth a thread. */
#define SDBR_SCORES 65536

#define SDBR_BY_DTYPE "rows.h"
#include "by_dtype.h"

/* Reductions and row ops: one kernel for inner == 1, one for inner > 1. */
#define SDBR_AXIS_ENTRY(name) SDBR_ENTRY(name##_rows) SDBR_ENTRY(name##_columns)
#define SDBR_AXIS(X) \
    X(sum) X(mean) X(max) X(min) X(softmax) X(softmax_grad) X(log_softmax) X(log_softmax_grad)

#define SDBR_LOSSES(X) \
    X(softmax_cross_entropy) \
    X(softmax_cross_entropy_grad) \
    X(softmax_cross_entropy_no_reduce) \
    X(softmax_cross_entropy_no_reduce_grad) \
    X(sigmoid_cross_entropy) \
    X(sigmoid_cross_entropy_grad) \
    X(sigmoid_cross_entropy_no_reduce) \
    X(sigmoid_cross_entropy_no_reduce_grad) \
    X(mean_squared_error) \
    X(mean_squared_error_grad) \
    X(mean_absolute_error) \
    X(mean_absolute_error_grad) \
    X(accuracy) \
    X(argmax_op) \
    X(select_item) \
    X(negate_item) \
    X(select_item_grad)

#define SDBR_ENTRIES \
    SDBR_AXIS(SDBR_AXIS_ENTRY) \
    SDBR_LOSSES(SDBR_ENTRY) \
    SDBR_ENTRY(dropout) SDBR_ENTRY(keep_mask) SDBR_ENTRY(uniform) \
    SDBR_CONTROL_ENTRIES
