/* The steps that a fused op may consist of, in the order of its table of row functions. */
#ifndef SDBR_FUSED_STEPS_H
#define SDBR_FUSED_STEPS_H

#include "elementwise/names.h"
#include "special/names.h"

#define SDBR_STEPS(X) \
    SDBR_UNARY(X) \
    SDBR_UNARY_SPECIAL(X) \
    SDBR_UNARY_GUARDED(X) \
    SDBR_BINARY(X) \
    SDBR_BINARY_SPECIAL(X) \
    SDBR_TERNARY(X) \
    SDBR_POWERS(X) \
    SDBR_CHOSEN(X) \
    X(fill, 1) \
    X(copy, 0)

#endif
