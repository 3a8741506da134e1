/* What device/kernels.cuh has once per dtype: all families, and the kernels of them that are wanted. */
#include "math/arithmetic.h"
#include "math/special.h"

#include "device/strands.cuh"
#include "device/elements.cuh"
#include "device/reduction.cuh"
#include "device/product.cuh"
#include "loss/sigmoid.h"
#include "device/loss.cuh"
#include "recurrent/gates.h"
#include "device/recurrent.cuh"
#include "device/random.cuh"

#if defined(__CUDACC__)
#undef T
#if SDBR_FLOATS
#define T sdbr_rounded<float>
#else
#define T sdbr_rounded<double>
#endif
#endif
#include "update/elements.h"
#include "device/update.cuh"
#undef T
#if SDBR_FLOATS
#define T float
#else
#define T double
#endif

/* A kernel of a team function; of one whose teams are counted; of one that keeps rows in much memory besides. */
#define SDBR_TEAM_KERNEL(name) SDBR_KERNEL(FN(name), FN(name##_team))
#define SDBR_COUNTED_KERNEL(name) SDBR_KERNEL_OF(FN(name), FN(name##_team), SDBR_DEVICE_SCRATCH, 1)
#define SDBR_ROOMY_KERNEL(name) SDBR_KERNEL_OF(FN(name), FN(name##_team), SDBR_DEVICE_ROOM, 1)
#include SDBR_WANTED
#undef SDBR_TEAM_KERNEL
#undef SDBR_COUNTED_KERNEL
#undef SDBR_ROOMY_KERNEL
