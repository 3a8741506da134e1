/* What unit.h has once per dtype. */
#include "math/special.h"

SDBR_UNARY_SPECIAL(SDBR_UNARY_KERNELS)
SDBR_BINARY_SPECIAL(SDBR_BINARY_KERNELS)
