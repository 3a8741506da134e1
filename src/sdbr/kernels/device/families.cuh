/* What device/kernels.cuh has once per dtype: all families, and the kernels of them that are wanted. */
#include "math/arithmetic.h"
#include "math/special.h"

#include "device/strands.cuh"
#include "device/elements.cuh"
#include "device/reduction.cuh"
#include "device/product.cuh"
#include "loss/sigmoid.h"
#include "device/loss.cuh"
#include "update/elements.h"
#include "device/update.cuh"
#include "recurrent/gates.h"
#include "device/recurrent.cuh"
#include "device/random.cuh"

/* A kernel of a team function. */
#define SDBR_TEAM_KERNEL(name) SDBR_KERNEL(FN(name), FN(name##_team))
#include SDBR_WANTED
#undef SDBR_TEAM_KERNEL
