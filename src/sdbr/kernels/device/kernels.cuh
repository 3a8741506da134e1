/* All kernels for GPUs that are wanted: SDBR_WANTED is a file that names them, or has those of fused ops. It is read once
 * per dtype, with SDBR_FLOATS 1 and 0, and once for those that are of no dtype, with -1. */
#include "device/elementwise.cuh"
#include "device/labels.cuh"
#include "device/philox.cuh"
#include "device/rounded.cuh"

#define SDBR_BY_DTYPE "device/families.cuh"
#include "frame/by_dtype.h"

#include "device/data.cuh"
#include "device/integer.cuh"
#include "device/words.cuh"
#define SDBR_FLOATS -1
#include SDBR_WANTED
