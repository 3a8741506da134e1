/* What unit_blas.h has once per dtype. */
#include "arithmetic.h"
#include "gemm_transpose.h"
#include "gemm_panel.h"
#include "gemv_template.h"
#include "blas_template.h"
#include "update_template.h"
