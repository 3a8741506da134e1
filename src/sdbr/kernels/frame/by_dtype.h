/* Includes SDBR_BY_DTYPE, the header of a family, once for float and once for double; see
 * template.h for what is defined meanwhile. */
#define T float
#define INT int32_t
#define INT_MAX_OF_T INT32_MAX
#define SUFFIX f4
#define FABS fabsf
#define SQRT sqrtf
#define COPYSIGN copysignf
#define SDBR_FLOATS 1
#define SDBR_GEMM sgemm
#include SDBR_BY_DTYPE
#undef T
#undef INT
#undef INT_MAX_OF_T
#undef SUFFIX
#undef FABS
#undef SQRT
#undef COPYSIGN
#undef SDBR_FLOATS
#undef SDBR_GEMM

#define T double
#define INT int64_t
#define INT_MAX_OF_T INT64_MAX
#define SUFFIX f8
#define FABS fabs
#define SQRT sqrt
#define COPYSIGN copysign
#define SDBR_FLOATS 0
#define SDBR_GEMM dgemm
#include SDBR_BY_DTYPE
#undef T
#undef INT
#undef INT_MAX_OF_T
#undef SUFFIX
#undef FABS
#undef SQRT
#undef COPYSIGN
#undef SDBR_FLOATS
#undef SDBR_GEMM

#undef SDBR_BY_DTYPE
