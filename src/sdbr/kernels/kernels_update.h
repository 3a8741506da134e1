/* Parameter updates and gradient hooks. Operands are C-contiguous; ints[0] is the size.
 *
 * Scalars are rounded to T first, as NumPy does with Python floats next to an array of T. */
#ifndef SDBR_KERNELS_UPDATE_H
#define SDBR_KERNELS_UPDATE_H

#define T float
#define SUFFIX f4
#define SQRT sqrtf
#include "update_template.h"
#undef T
#undef SUFFIX
#undef SQRT

#define T double
#define SUFFIX f8
#define SQRT sqrt
#include "update_template.h"
#undef T
#undef SUFFIX
#undef SQRT

#define SDBR_UPDATE_ENTRY(name) {#name "_f4", name##_f4}, {#name "_f8", name##_f8},
#define SDBR_UPDATE_ENTRIES                                                                          \
    SDBR_UPDATE_ENTRY(sgd) SDBR_UPDATE_ENTRY(momentum_sgd) SDBR_UPDATE_ENTRY(adam)                   \
    SDBR_UPDATE_ENTRY(adam_vhat) SDBR_UPDATE_ENTRY(weight_decay) SDBR_UPDATE_ENTRY(lasso)            \
    SDBR_UPDATE_ENTRY(clip_norm)

#endif
