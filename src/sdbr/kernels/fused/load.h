/* What kernels.h shares between dtypes. */
#ifndef SDBR_FUSED_LOAD_H
#define SDBR_FUSED_LOAD_H

#include <stdint.h>

#include "frame/sdbr_limits.h"

/* Walks over a strided operand in C order, some elements at a time; `again` is 0 where every block is
 * the same. */
struct sdbr_fused_load {
    const char *at;
    const int64_t *shape, *strides;
    int64_t buffer, again, ndim, index[SDBR_FUSED_AXES];
};

#endif
