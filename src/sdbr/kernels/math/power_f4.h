/* Powers for float: branch-free, within 1 ulp; NaN, infinities, signed zeros, overflow and denormal
 * results as in libm. Logarithm and exponential are taken in double, so no exponent is too large.
 * Coefficients as in math_f4.h. */
#ifndef SDBR_POWER_F4_H
#define SDBR_POWER_F4_H

#include "math/math_f4.h"

/* log2 to 36 bits, as sdbr_log_of_bits_f4; `more` is added to e. */
SDBR_INLINE double sdbr_wide_log2_f4(uint32_t u, int32_t more) {
    const double e = (double)((int32_t)(u >> 23) - 127 + more);
    const double f = (double)(sdbr_from_bits_f4((u & 0x7fffffu) + SDBR_LEAST_F4) - 1.0f);
    const double s = f / (2.0 + f), z = s * s;
    double p = 0x1.58aa6455d4eebp-2;
    p = p * z + 0x1.a5c972b711cf5p-2;
    p = p * z + 0x1.2777000a2a1fdp-1;
    p = p * z + 0x1.ec709db5b9a57p-1;
    return e + (s * 0x1.71547652b82fep1 + s * z * p);
}

/* 2^x; beyond 1000 what is far too large or too small for a float. */
SDBR_INLINE float sdbr_wide_exp2_f4(double x) {
    x = x < -1000.0 ? -1000.0 : x;
    x = x > 1000.0 ? 1000.0 : x;
    const double magic = 0x1.8p52, t = x + magic, r = x - (t - magic);
    uint64_t n;
    memcpy(&n, &t, sizeof n);
    n = (n + 1023u) << 52; /* what is above the low bits of t is shifted out */
    double scale, p = 1.546144468197727e-4; /* 0.04 ulp of float */
    memcpy(&scale, &n, sizeof scale);
    p = p * r + 1.340042817724162e-3;
    p = p * r + 9.61805667858297e-3;
    p = p * r + 5.550327226671658e-2;
    p = p * r + 2.4022650922288286e-1;
    p = p * r + 6.931472067028315e-1;
    p = p * r + 1.0;
    return (float)(p * scale);
}

/* Of bases that are normal numbers above 0 and exponents that are finite. */
SDBR_INLINE int sdbr_is_plain_pow_f4(float x, float y) {
    return (x >= 0x1p-126f) & (x < INFINITY) & (fabsf(y) < INFINITY);
}
SDBR_INLINE float sdbr_plain_pow_f4(float x, float y) {
    return sdbr_wide_exp2_f4((double)y * sdbr_wide_log2_f4(sdbr_bits_f4(x) + (0x3f800000u - SDBR_LEAST_F4), 0));
}

SDBR_INLINE float sdbr_pow_f4(float x, float y) {
    const float ax = fabsf(x), ay = fabsf(y), magic = 0x1p23f;
    const int whole = (ay >= magic) | ((ay + magic) - magic == ay);
    const int even = (0.5f * ay + magic) - magic == 0.5f * ay;
    const int odd = whole & !even & (ay < 2.0f * magic);
    const int denormal = ax < 0x1p-126f;
    const uint32_t u = sdbr_bits_f4(denormal ? ax * 0x1p25f : ax) + (0x3f800000u - SDBR_LEAST_F4);
    float z = sdbr_wide_exp2_f4((double)y * sdbr_wide_log2_f4(u, denormal ? -25 : 0));
    const int grows = (ax > 1.0f) == (y > 0.0f); /* only asked where one of them is 0 or infinite */
    const int edge = (ax == 0.0f) | (ax == INFINITY) | (ay == INFINITY);
    z = edge ? (grows ? INFINITY : 0.0f) : z;
    z = (x < 0.0f) & (ax < INFINITY) & !whole ? NAN : z;
    z = (x != x) | (y != y) ? x + y : z;
    z = odd ? copysignf(z, x) : z;
    return (x == 1.0f) | (y == 0.0f) | ((ax == 1.0f) & (ay == INFINITY)) ? 1.0f : z;
}

#endif
