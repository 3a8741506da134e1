/* Functions of mathematics by number of operands; see elementwise/names.h. */
#ifndef SDBR_SPECIAL_NAMES_H
#define SDBR_SPECIAL_NAMES_H

#define SDBR_UNARY_SPECIAL(X) \
    X(erf, 0) \
    X(erfc, 0) \
    X(ndtr, 0) \
    X(log_ndtr, 0) \
    X(arcsin, 0) \
    X(arccos, 0) \
    X(arctan, 0) \
    X(arctanh, 0) \
    X(floor, 0) \
    X(ceil, 0) \
    X(trunc, 0) \
    X(hard_sigmoid, 0) \
    X(trigamma, 0) \
    X(erfinv, 0) \
    X(erfcinv, 0) \
    X(erfcx, 0)

/* In float they are shorter, or vectors at all, where nothing is rare: their rows look first (elementwise/rows.h). */
#define SDBR_UNARY_GUARDED(X) \
    X(lgamma, 0) \
    X(digamma, 0) \
    X(log1p, 0) \
    X(log2, 0) \
    X(log10, 0) \
    X(expm1, 0) \
    X(sinh, 0) \
    X(cosh, 0) \
    X(sin, 0) \
    X(cos, 0) \
    X(tan, 0)

#define SDBR_BINARY_SPECIAL(X) \
    X(arctan2, 0) \
    X(fmod, 0) \
    X(divide_nonzero, 0) \
    X(gauss_grad, 2) \
    X(log_ndtr_grad, 0) \
    X(hard_sigmoid_grad, 0)

#endif
