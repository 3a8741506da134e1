/* Matrix products: own kernels for small sizes, BLAS for large ones. */
#include "math/power_f4.h"
#include "math/math_f8.h"
#include "product/setup.h"

#define SDBR_BY_DTYPE "product/kernels.h"
#include "frame/by_dtype.h"

#define SDBR_ENTRIES                                                                                 \
    SDBR_ENTRY(linear) SDBR_ENTRY(linear_row) SDBR_ENTRY(linear_blas)                                \
    SDBR_ENTRY(gemm) SDBR_ENTRY(gemm_row) SDBR_ENTRY(gemm_outer)                                     \
    SDBR_ENTRY(gemm_blas) SDBR_ENTRY(batch_matmul) SDBR_ENTRY(batch_matmul_blas)                     \
    SDBR_ENTRY(gemm_mask) SDBR_ENTRY(gemm_mask_row) SDBR_ENTRY(gemm_mask_blas)
