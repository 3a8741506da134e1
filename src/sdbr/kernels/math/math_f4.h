/* exp, log, log1p, expm1 and tanh for float: branch-free, so that loops over them vectorise.
 *
 * Within 2 ulp of the true value; NaN, infinities, signed zeros, overflow and denormal results as
 * in libm. Each function reduces its argument and evaluates a polynomial interpolated at Chebyshev
 * nodes; the numbers after the coefficients are the error of the polynomial alone. */
#ifndef SDBR_MATH_F4_H
#define SDBR_MATH_F4_H

#include "frame/template.h"

SDBR_INLINE uint32_t sdbr_bits_f4(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

SDBR_INLINE float sdbr_from_bits_f4(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* x = n ln 2 + r with |r| <= ln 2 / 2. Adding 1.5 * 2^23 rounds to an integer and leaves n in the
 * low bits; for NaN the bits are meaningless but defined. Returns exp(r) - 1. */
SDBR_INLINE float sdbr_exp_reduce_f4(float x, int32_t *n) {
    const float magic = 0x1.8p23f;
    float t = x * 0x1.715476p0f + magic;
    float k = t - magic;
    *n = (int32_t)(sdbr_bits_f4(t) - sdbr_bits_f4(magic));
    float r = x - k * 0x1.62e4p-1f; /* 15 bits of ln 2: exact products */
    r = r - k * 0x1.7f7d1cp-20f;
    float p = 1.392692661e-3f; /* 0.14 ulp */
    p = p * r + 8.363773874e-3f;
    p = p * r + 4.166655011e-2f;
    p = p * r + 1.666657338e-1f;
    p = p * r + 0.5f;
    return r + r * r * p;
}

SDBR_INLINE float sdbr_exp_f4(float x) {
    int32_t n;
    x = x > 89.0f ? 89.0f : x; /* beyond, the result is infinite or zero all the same */
    x = x < -105.0f ? -105.0f : x;
    float p = 1.0f + sdbr_exp_reduce_f4(x, &n);
    /* In two steps, because 2^n itself may overflow or be denormal. */
    int32_t half = n >> 1;
    float a = sdbr_from_bits_f4((uint32_t)(half + 127) << 23);
    float b = sdbr_from_bits_f4((uint32_t)(n - half + 127) << 23);
    return p * a * b;
}

/* exp(x) - 1 for |x| <= 80, accurate near 0: 2^n (exp(r) - 1) + (2^n - 1). */
SDBR_INLINE float sdbr_expm1_bounded_f4(float x) {
    int32_t n;
    float p = sdbr_exp_reduce_f4(x, &n);
    float s = sdbr_from_bits_f4((uint32_t)(n + 127) << 23);
    return s * p + (s - 1.0f);
}

SDBR_INLINE int sdbr_is_plain_expm1_f4(float x) { return fabsf(x) <= 40.0f; }
SDBR_INLINE float sdbr_plain_expm1_f4(float x) { return copysignf(sdbr_expm1_bounded_f4(x), x); }

/* exp(x) - 1 for x <= 0. */
SDBR_INLINE float sdbr_expm1_negative_f4(float x) {
    return sdbr_expm1_bounded_f4(x < -40.0f ? -40.0f : x);
}

/* tanh(x / 2) for x >= 0: t / (t + 2) with t = exp(x) - 1. Good enough where 1 is added (sigmoid). */
SDBR_INLINE float sdbr_tanh_half_f4(float x) {
    float t = sdbr_expm1_bounded_f4(x > 20.0f ? 20.0f : x);
    return t / (t + 2.0f);
}

/* The same with what rounding t and d = t + 2 loses; its share of the quotient needs no more than a line
 * that is near 1 / d for d from 2 to 5, and 0 beyond. */
SDBR_INLINE float sdbr_tanh_half_exactly_f4(float x) {
    int32_t n;
    float p = sdbr_exp_reduce_f4(x > 20.0f ? 20.0f : x, &n);
    float s = sdbr_from_bits_f4((uint32_t)(n + 127) << 23);
    float t = s * p + (s - 1.0f), d = t + 2.0f, y = t / d;
    float lost = s * p - (t - (s - 1.0f)), lost_too = t - (d - 2.0f);
    float inverse = 0.75f - 0.125f * d;
    return y + (lost - y * (lost + lost_too)) * (inverse > 0.0f ? inverse : 0.0f);
}

SDBR_INLINE float sdbr_tanh_f4(float x) {
    return copysignf(sdbr_tanh_half_exactly_f4(2.0f * fabsf(x)), x);
}

/* x = 2^e m with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh((m - 1) / (m + 1)). `u` are the bits of x, less
 * those of sqrt(1/2) and plus those of 1; `less` is taken from e. */
#define SDBR_LEAST_F4 0x3f3504f3u /* sqrt(1/2) */
SDBR_INLINE float sdbr_log_of_bits_f4(uint32_t u, float less) {
    float e = (float)((int32_t)(u >> 23) - 127) - less;
    float f = sdbr_from_bits_f4((u & 0x7fffffu) + SDBR_LEAST_F4) - 1.0f;
    float s = f / (2.0f + f);
    float z = s * s;
    float p = 2.958215895e-1f; /* 0.05 ulp */
    p = p * z + 3.998873183e-1f;
    p = p * z + 6.666668516e-1f;
    float h = 0.5f * f * f;
    float y = s * (h + z * p) + e * 0x1.7f7d1cp-20f;
    return e * 0x1.62e4p-1f - ((h - y) - f);
}

/* Of normal numbers above 0. */
SDBR_INLINE int sdbr_is_plain_log_f4(float x) { return (x >= 0x1p-126f) & (x < INFINITY); }

SDBR_INLINE float sdbr_log_f4(float x) {
    int denormal = x < 0x1p-126f;
    float scaled = denormal ? x * 0x1p25f : x;
    float y = sdbr_log_of_bits_f4(sdbr_bits_f4(scaled) + (0x3f800000u - SDBR_LEAST_F4), denormal ? 25.0f : 0.0f);
    float special = x < 0.0f ? NAN : (x == 0.0f ? -INFINITY : x);
    return (x > 0.0f) & (x < INFINITY) ? y : special;
}

/* Of x >= 1 or NaN. Where gcc knows that x is, it makes branches of the general one. */
SDBR_INLINE float sdbr_log_from_one_f4(float x) {
    float y = sdbr_log_of_bits_f4(sdbr_bits_f4(x) + (0x3f800000u - SDBR_LEAST_F4), 0.0f);
    return x < INFINITY ? y : x;
}

/* log(1 + u) for 0 <= u <= 1: 2 atanh(u / (2 + u)). */
SDBR_INLINE float sdbr_log1p_unit_f4(float u) {
    float s = u / (2.0f + u);
    float z = s * s;
    float p = 2.685149802e-1f; /* 0.27 ulp */
    p = p * z + 2.823661981e-1f;
    p = p * z + 4.000756064e-1f;
    p = p * z + 6.666664034e-1f;
    return 2.0f * s + s * z * p;
}

#endif
