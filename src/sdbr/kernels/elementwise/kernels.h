/* What unit.h has once per dtype. */
#include "math/arithmetic.h"
#include "elementwise/powers.h"

SDBR_UNARY(SDBR_UNARY_KERNELS)
SDBR_UNARY_HIDDEN(SDBR_UNARY_KERNELS)
SDBR_BINARY(SDBR_BINARY_KERNELS)
SDBR_BINARY_HIDDEN(SDBR_BINARY_KERNELS)
SDBR_TERNARY(SDBR_TERNARY_KERNELS)
SDBR_UNARY_WALKS(pow_any, 1)
SDBR_UNARY_WALKS(rpow_constant, 1)
SDBR_BINARY_WALKS(power, 0)
SDBR_BINARY_WALKS(pow_any_grad, 1)
SDBR_TERNARY_WALKS(power_grad_x, 0)

/* NumPy replaces these exponents, too (3 it does not: there the result is the same to rounding). */
#define SDBR_CHOSEN_KERNELS(variant) \
    static int FN(pow_constant_##variant)(const sdbr_op *op) { \
        const double value = op->floats[0]; \
        return value == 2.0    ? FN(square_##variant)(op) \
               : value == 1.0  ? FN(identity_##variant)(op) \
               : value == 0.5  ? FN(sqrt_##variant)(op) \
               : value == -1.0 ? FN(reciprocal_##variant)(op) \
               : value == 3.0  ? FN(cube_##variant)(op) \
               : value == 0.0  ? FN(one_##variant)(op) \
                               : FN(pow_any_##variant)(op); \
    } \
    static int FN(pow_constant_grad_##variant)(const sdbr_op *op) { \
        const double value = op->floats[0]; \
        return value == 2.0   ? FN(square_grad_##variant)(op) \
               : value == 3.0 ? FN(cube_grad_##variant)(op) \
               : value == 1.5 ? FN(sqrt_cube_grad_##variant)(op) \
                              : FN(pow_any_grad_##variant)(op); \
    }

SDBR_CHOSEN_KERNELS(contiguous)
SDBR_CHOSEN_KERNELS(strided)

#undef SDBR_CHOSEN_KERNELS
