/* Updates of parameters, and hooks on gradients. */
#include "frame/template.h"

#define SDBR_BY_DTYPE "update/kernels.h"
#include "frame/by_dtype.h"

#define SDBR_ENTRIES                                                                                 \
    SDBR_ENTRY(sgd) SDBR_ENTRY(momentum_sgd) SDBR_ENTRY(adam) SDBR_ENTRY(adam_vhat)                  \
    SDBR_ENTRY(rmsprop)                                                                              \
    SDBR_ENTRY(weight_decay) SDBR_ENTRY(lasso) SDBR_ENTRY(clip_norm)
