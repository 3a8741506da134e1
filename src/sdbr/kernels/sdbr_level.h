/* Every kernel, once: included by kernels_<level>.c after the target of the level is set, with
 * SDBR_REGISTRY naming the registry to define. */
#include "sdbr_template.h"

#include "math_f4.h"
#include "math_f8.h"
#include "nd_loop.h"
#include "label.h"
#include "copy.h"
#include "cast_names.h"
#include "elementwise_names.h"

#define T float
#define INT int32_t
#define INT_MAX_OF_T INT32_MAX
#define SUFFIX f4
#define FABS fabsf
#define SQRT sqrtf
#define POW powf
#define COPYSIGN copysignf
#include "families.h"
#undef T
#undef INT
#undef INT_MAX_OF_T
#undef SUFFIX
#undef FABS
#undef SQRT
#undef POW
#undef COPYSIGN

#define T double
#define INT int64_t
#define INT_MAX_OF_T INT64_MAX
#define SUFFIX f8
#define FABS fabs
#define SQRT sqrt
#define POW pow
#define COPYSIGN copysign
#include "families.h"
#undef T
#undef INT
#undef INT_MAX_OF_T
#undef SUFFIX
#undef FABS
#undef SQRT
#undef POW
#undef COPYSIGN

#include "control.h"
#include "kernels_blas.h"
#include "kernels_update.h"

#define SDBR_ENTRY(name) {#name "_f4", name##_f4}, {#name "_f8", name##_f8},
#define SDBR_ELEMENTWISE_ENTRY(name, count) SDBR_ENTRY(name##_contiguous) SDBR_ENTRY(name##_strided)

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
    X(select_item_grad)

const sdbr_registry_entry SDBR_REGISTRY[] = {
    SDBR_UNARY(SDBR_ELEMENTWISE_ENTRY)
    SDBR_BINARY(SDBR_ELEMENTWISE_ENTRY)
    SDBR_TERNARY(SDBR_ELEMENTWISE_ENTRY)
    SDBR_CHOSEN(SDBR_ELEMENTWISE_ENTRY)
    SDBR_AXIS(SDBR_AXIS_ENTRY)
    SDBR_LOSSES(SDBR_ENTRY)
    SDBR_ENTRY(dropout)
    SDBR_COPY_ENTRIES
    SDBR_CAST_ENTRIES
    SDBR_CONTROL_ENTRIES
    SDBR_BLAS_ENTRIES
    SDBR_UPDATE_ENTRIES
    {NULL, NULL}
};
