/* Elementwise ops by number of operands. X(name, number of float attributes). The rows of one list
 * make the functions of math/arithmetic.h into kernels and enter them into the registry. */
#ifndef SDBR_ELEMENTWISE_NAMES_H
#define SDBR_ELEMENTWISE_NAMES_H

#define SDBR_UNARY(X) \
    X(negative, 0) \
    X(absolute, 0) \
    X(sign, 0) \
    X(exp, 0) \
    X(log, 0) \
    X(sqrt, 0) \
    X(square, 0) \
    X(reciprocal, 0) \
    X(relu, 0) \
    X(sigmoid, 0) \
    X(tanh, 0) \
    X(leaky_relu, 1) \
    X(elu, 1) \
    X(clipped_relu, 1) \
    X(softplus, 1) \
    X(clip, 2) \
    X(add_constant, 1) \
    X(rsub_constant, 1) \
    X(mul_constant, 1) \
    X(div_constant, 1) \
    X(rdiv_constant, 1)

/* Not in the op table: what pow_constant and its gradient become for some exponents. */
#define SDBR_UNARY_HIDDEN(X) \
    X(one, 0) \
    X(identity, 0) \
    X(cube, 0)

#define SDBR_BINARY(X) \
    X(add, 0) \
    X(subtract, 0) \
    X(multiply, 0) \
    X(divide, 0) \
    X(maximum, 0) \
    X(minimum, 0) \
    X(relu_grad, 0) \
    X(leaky_relu_grad, 1) \
    X(elu_grad, 1) \
    X(clipped_relu_grad, 1) \
    X(sigmoid_grad, 0) \
    X(tanh_grad, 0) \
    X(softplus_grad, 1) \
    X(clip_grad, 2) \
    X(absolute_grad, 0) \
    X(sqrt_grad, 0) \
    X(square_grad, 0) \
    X(rpow_constant_grad, 1) \
    X(rdiv_constant_grad, 1) \
    X(huber, 1) \
    X(bernoulli_log_prob, 1) \
    X(rrelu, 0)

#define SDBR_BINARY_HIDDEN(X) \
    X(sqrt_cube_grad, 0) \
    X(cube_grad, 0)

#define SDBR_TERNARY(X) \
    X(divide_grad_y, 0) \
    X(power_grad_y, 0) \
    X(where_ge, 0) \
    X(where_not_ge, 0) \
    X(mask_ge, 0) \
    X(mask_gt, 0) \
    X(mask_eq, 0) \
    X(huber_grad, 1) \
    X(bernoulli_log_prob_grad, 1) \
    X(rrelu_grad, 0)

/* Their rows look at the numbers first (powers.h); so do those of pow_any and pow_any_grad. */
#define SDBR_POWERS(X) \
    X(rpow_constant, 1) \
    X(power, 0) \
    X(power_grad_x, 0)

/* Written by hand: they choose among the above by the value of the exponent. */
#define SDBR_CHOSEN(X) \
    X(pow_constant, 1) \
    X(pow_constant_grad, 1)

#endif
