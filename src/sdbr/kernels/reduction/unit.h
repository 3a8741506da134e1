/* Reductions and ops on rows along an axis. */
#include "math/power_f4.h"
#include "math/math_f8.h"
#include "frame/pairs.h"

#define SDBR_BY_DTYPE "reduction/kernels.h"
#include "frame/by_dtype.h"

/* One kernel for inner == 1, one for inner > 1. */
#define SDBR_AXIS_ENTRY(name) SDBR_ENTRY(name##_rows) SDBR_ENTRY(name##_columns)
#define SDBR_AXIS(X) \
    X(sum) X(mean) X(max) X(min) X(softmax) X(softmax_grad) X(log_softmax) X(log_softmax_grad)

#define SDBR_ENTRIES SDBR_AXIS(SDBR_AXIS_ENTRY)
