/* Matrix products: own kernels for small sizes, BLAS for large ones; parameter updates. */
#include "math_f4.h"
#include "math_f8.h"
#include "gemm_setup.h"

#define SDBR_BY_DTYPE "blas.h"
#include "by_dtype.h"

#define SDBR_ENTRIES                                                                                 \
    SDBR_ENTRY(linear) SDBR_ENTRY(linear_row) SDBR_ENTRY(linear_blas)                                \
    SDBR_ENTRY(gemm) SDBR_ENTRY(gemm_row) SDBR_ENTRY(gemm_outer)                                     \
    SDBR_ENTRY(gemm_blas) SDBR_ENTRY(batch_matmul) SDBR_ENTRY(batch_matmul_blas)                     \
    SDBR_ENTRY(gemm_mask) SDBR_ENTRY(gemm_mask_row) SDBR_ENTRY(gemm_mask_blas)                       \
    SDBR_ENTRY(sgd) SDBR_ENTRY(momentum_sgd) SDBR_ENTRY(adam) SDBR_ENTRY(adam_vhat)                  \
    SDBR_ENTRY(weight_decay) SDBR_ENTRY(lasso) SDBR_ENTRY(clip_norm)
