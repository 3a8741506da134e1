/* erf and log1p for float: branch-free and within 2 ulp, as the functions of math_f4.h. */
#ifndef SDBR_SPECIAL_F4_H
#define SDBR_SPECIAL_F4_H

#include "math/math_f4.h"

/* Below 7/8 an odd polynomial; above, 1 - exp of a polynomial that approaches log(erfc). */
SDBR_INLINE float sdbr_erf_f4(float x) {
    const float t = fabsf(x), z = t * t, u = t > 4.0f ? 4.0f : t; /* from 4 on the result is 1 */
    float p = 8.69036903e-5f; /* 0.9 ulp */
    p = p * z - 8.21457092e-4f;
    p = p * z + 5.20704891e-3f;
    p = p * z - 2.68617058e-2f;
    p = p * z + 1.12837352e-1f;
    p = p * z - 3.76126362e-1f;
    p = p * z + 1.28379167e-1f;
    float l = 1.6411144e-6f; /* 1 ulp */
    l = l * u - 4.61192284e-5f;
    l = l * u + 5.97151544e-4f;
    l = l * u - 4.76028572e-3f;
    l = l * u + 2.64200154e-2f;
    l = l * u - 1.10071846e-1f;
    l = l * u - 6.31842422e-1f;
    l = l * u - 1.13021881f;
    l = l * u + 3.15154151e-4f;
    const float far = copysignf(1.0f - sdbr_exp_f4(l), x);
    return t > 0.875f ? far : x + x * p;
}

/* Where 1 + x is above 0 and a power of 2 that is near it has an inverse. */
SDBR_INLINE int sdbr_is_plain_log1p_f4(float x) { return (x > -1.0f) & (x < 0x1p126f); }

/* As sdbr_log_of_bits_f4 of 1 + x rounded, whose mantissa gets back what the rounding has taken from x. */
SDBR_INLINE float sdbr_plain_log1p_f4(float x) {
    const float near = 1.0f + x, lost = x - (near - 1.0f);
    const uint32_t u = sdbr_bits_f4(near) + (0x3f800000u - SDBR_LEAST_F4);
    const float e = (float)((int32_t)(u >> 23) - 127);
    const float scale = sdbr_from_bits_f4((254u << 23) - (u & 0xff800000u)); /* 2^-e */
    const float f = (sdbr_from_bits_f4((u & 0x7fffffu) + SDBR_LEAST_F4) - 1.0f) + lost * scale;
    const float s = f / (2.0f + f);
    const float z = s * s;
    float p = 2.958215895e-1f;
    p = p * z + 3.998873183e-1f;
    p = p * z + 6.666668516e-1f;
    const float h = 0.5f * f * f;
    const float y = s * (h + z * p) + e * 0x1.7f7d1cp-20f;
    return copysignf(e * 0x1.62e4p-1f - ((h - y) - f), x);
}

SDBR_INLINE float sdbr_log1p_f4(float x) {
    const float y = sdbr_plain_log1p_f4(x), rare = sdbr_log_f4(1.0f + x);
    return sdbr_is_plain_log1p_f4(x) ? y : rare;
}

#endif
