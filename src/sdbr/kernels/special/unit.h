/* Functions of mathematics, element by element. */
#include "math/erf_f8.h"
#include "math/gamma_f4.h"
#include "math/power_f4.h"
#include "math/math_f8.h"
#include "math/special_f4.h"
#include "math/special_f8.h"
#include "math/trigonometry_f4.h"
#include "elementwise/walks.h"
#include "special/names.h"

#define SDBR_BY_DTYPE "special/kernels.h"
#include "frame/by_dtype.h"

#define SDBR_ENTRIES \
    SDBR_UNARY_SPECIAL(SDBR_ELEMENTWISE_ENTRY) \
    SDBR_UNARY_GUARDED(SDBR_ELEMENTWISE_ENTRY) \
    SDBR_BINARY_SPECIAL(SDBR_ELEMENTWISE_ENTRY)
