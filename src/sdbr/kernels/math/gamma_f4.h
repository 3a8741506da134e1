/* Logarithm of the gamma function and digamma for float arguments above 0: branch-free, in double, so that what
 * cancels out next to their zeros leaves the digits of a float; within 1 ulp. Formulas as in gamma_f8.h. */
#ifndef SDBR_GAMMA_F4_H
#define SDBR_GAMMA_F4_H

#include "math/gamma_f8.h"
#include "math/math_f8.h"

SDBR_INLINE int sdbr_is_plain_gamma_f4(float x) { return (x > 0.0f) & (x < INFINITY); }

/* Of two numbers by bits: gcc makes branches of ?: where more than one asks the same. */
SDBR_INLINE double sdbr_choose_f8(int first, double a, double b) {
    const uint64_t mask = (uint64_t)0 - (uint64_t)first;
    return sdbr_from_bits_f8((sdbr_bits_f8(a) & mask) | (sdbr_bits_f8(b) & ~mask));
}

/* lgamma(2 + t) / t for |t| <= 1/2: the first terms of sdbr_lgamma_near_2. */
SDBR_INLINE double sdbr_lgamma_near_2_f4(double t) {
    double p = -2.0449201467015115e-6;
    p = p * t + 4.374374916915131e-6;
    p = p * t - 9.438458716242811e-6;
    p = p * t + 2.050726741605779e-5;
    p = p * t - 4.4926351103833334e-5;
    p = p * t + 9.945750909889392e-5;
    p = p * t - 2.2315475074520367e-4;
    p = p * t + 5.096695248853096e-4;
    p = p * t - 1.1927539119020226e-3;
    p = p * t + 2.890510330738737e-3;
    p = p * t - 7.3855510281686535e-3;
    p = p * t + 2.058080842778457e-2;
    p = p * t - 6.735230105319814e-2;
    p = p * t + 3.224670334241132e-1;
    return p * t + 4.2278433509846713e-1;
}

/* Below 5/2 by the polynomial, none, one or two steps up; from there on by Stirling's series, five steps up. */
SDBR_INLINE float sdbr_plain_lgamma_f4(float argument) {
    const double x = argument, y = x + 5.0, z = 1.0 / y, w = z * z;
    const int two_up = x < 0.5, up = x < 1.5, small = x < 2.5;
    const double t = sdbr_choose_f8(two_up, x, x - sdbr_choose_f8(up, 1.0, 2.0));
    const double few = sdbr_choose_f8(up, x, 1.0) * sdbr_choose_f8(two_up, 1.0 + x, 1.0);
    const double many = x * (x + 1.0) * ((x + 2.0) * (x + 3.0)) * (x + 4.0);
    double series = 1.0 / 1188;
    series = series * w - 1.0 / 1680;
    series = series * w + 1.0 / 1260;
    series = series * w - 1.0 / 360;
    series = series * w + 1.0 / 12;
    const double large = (y - 0.5) * (sdbr_log_f8(y) - 1.0) + (0.41893853320467274178 + series * z);
    const double base = sdbr_choose_f8(small, t * sdbr_lgamma_near_2_f4(t), large);
    return (float)(base - sdbr_log_f8(sdbr_choose_f8(small, few, many)));
}

/* digamma(x + 6) by its series, less the sum of 1 / (x + k): the derivative of the product of x + k over the
 * product. One division serves both. */
SDBR_INLINE float sdbr_plain_digamma_f4(float argument) {
    const double x = argument, y = x + 6.0;
    double product = x + 15.0, slope = 6.0 * x + 75.0;
    product = product * x + 85.0;
    product = product * x + 225.0;
    product = product * x + 274.0;
    product = (product * x + 120.0) * x;
    slope = slope * x + 340.0;
    slope = slope * x + 675.0;
    slope = slope * x + 548.0;
    slope = slope * x + 120.0;
    const double inverse = 1.0 / (y * product), z = inverse * product, w = z * z;
    double series = -3617.0 / 8160;
    series = series * w + 1.0 / 12;
    series = series * w - 691.0 / 32760;
    series = series * w + 1.0 / 132;
    series = series * w - 1.0 / 240;
    series = series * w + 1.0 / 252;
    series = series * w - 1.0 / 120;
    series = series * w + 1.0 / 12;
    return (float)(sdbr_log_f8(y) - (0.5 * z + series * w) - slope * (inverse * y));
}

SDBR_INLINE float sdbr_lgamma_f4(float x) {
    return sdbr_is_plain_gamma_f4(x) ? sdbr_plain_lgamma_f4(x) : (float)sdbr_lgamma_f8((double)x);
}
SDBR_INLINE float sdbr_digamma_f4(float x) {
    return sdbr_is_plain_gamma_f4(x) ? sdbr_plain_digamma_f4(x) : (float)sdbr_digamma_f8((double)x);
}

#endif
