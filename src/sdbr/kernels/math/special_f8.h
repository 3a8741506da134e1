/* Logarithm of the distribution function of the normal distribution, and its derivative. */
#ifndef SDBR_SPECIAL_F8_H
#define SDBR_SPECIAL_F8_H

#include "frame/template.h"

/* 1 - 1/x^2 + 3/x^4 - 15/x^6 ...: what is left of the function far below 0 when exp(-x^2 / 2) and
 * -x sqrt(2 pi) are taken out. The terms fall off for |x| >= 20 to below a rounding. */
SDBR_INLINE double sdbr_ndtr_tail_f8(double x) {
    const double z = 1 / (x * x);
    double sum = 1;
    for (int k = 13; k > 0; k -= 2)
        sum = 1 - k * z * sum;
    return sum;
}

SDBR_HELPER double sdbr_log_ndtr_f8(double x) {
    const double half = 0.70710678118654752440; /* sqrt(1/2) */
    if (x > -1)
        return log1p(-0.5 * erfc(x * half));
    if (x > -20)
        return log(0.5 * erfc(-x * half));
    return -0.5 * x * x - log(-x) - 0.91893853320467274178 + log(sdbr_ndtr_tail_f8(x));
}

/* exp(-x^2 / 2) / sqrt(2 pi) over the function. */
SDBR_HELPER double sdbr_log_ndtr_slope_f8(double x) {
    if (x > -20)
        return 0.79788456080286535588 * exp(-0.5 * x * x) / erfc(x * -0.70710678118654752440);
    return -x / sdbr_ndtr_tail_f8(x);
}

#endif
