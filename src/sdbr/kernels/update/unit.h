/* Updates of parameters, and hooks on gradients. */
#include "frame/template.h"

#define SDBR_BLOCK_BYTES 256
#define SDBR_AHEAD_BYTES 1024

#define SDBR_BY_DTYPE "update/kernels.h"
#include "frame/by_dtype.h"

#define SDBR_ENTRIES                                                                                \
    SDBR_ENTRY(sgd) SDBR_ENTRY(momentum_sgd) SDBR_ENTRY(corrected_momentum_sgd) SDBR_ENTRY(nesterov_ag) \
    SDBR_ENTRY(ada_grad) SDBR_ENTRY(ada_delta) SDBR_ENTRY(adam) SDBR_ENTRY(adam_vhat)               \
    SDBR_ENTRY(rmsprop) SDBR_ENTRY(rmsprop_graves) SDBR_ENTRY(smorms3) SDBR_ENTRY(msvag)            \
    SDBR_ENTRY(weight_decay) SDBR_ENTRY(lasso) SDBR_ENTRY(hard_clip) SDBR_ENTRY(lars)               \
    SDBR_ENTRY(add_noise) SDBR_ENTRY(clip_norm) SDBR_ENTRY(all_finite)
