/* Elementwise ops. */
#include "math/power_f4.h"
#include "math/math_f8.h"
#include "elementwise/names.h"
#include "elementwise/walks.h"

#define SDBR_BY_DTYPE "elementwise/kernels.h"
#include "frame/by_dtype.h"

#define SDBR_ENTRIES \
    SDBR_UNARY(SDBR_ELEMENTWISE_ENTRY) \
    SDBR_BINARY(SDBR_ELEMENTWISE_ENTRY) \
    SDBR_TERNARY(SDBR_ELEMENTWISE_ENTRY) \
    SDBR_POWERS(SDBR_ELEMENTWISE_ENTRY) \
    SDBR_CHOSEN(SDBR_ELEMENTWISE_ENTRY)
