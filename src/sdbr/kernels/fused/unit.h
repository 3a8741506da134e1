/* Several elementwise ops as one. */
#include "math/erf_f8.h"
#include "math/gamma_f4.h"
#include "math/power_f4.h"
#include "math/math_f8.h"
#include "math/special_f4.h"
#include "math/special_f8.h"
#include "math/trigonometry_f4.h"
#include "elementwise/rows.h"
#include "fused/load.h"
#include "fused/steps.h"

#define SDBR_BY_DTYPE "fused/kernels.h"
#include "frame/by_dtype.h"

#define SDBR_ENTRIES SDBR_ENTRY(fused)
