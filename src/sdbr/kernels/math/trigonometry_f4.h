/* Circular and hyperbolic functions and their inverses for float: branch-free, within 4 ulp; NaN,
 * infinities and signed zeros as in libm. Coefficients as in math_f4.h. */
#ifndef SDBR_TRIGONOMETRY_F4_H
#define SDBR_TRIGONOMETRY_F4_H

#include "math/special_f4.h"

/* Beyond it the multiple of pi / 2 has too many digits: libm has to do. */
#define SDBR_NEAR_F4 0x1p20f

/* x = n pi / 2 + r with |r| <= pi / 4, for |x| <= SDBR_NEAR_F4. */
SDBR_INLINE float sdbr_quarter_f4(float x, int32_t *n) {
    const double magic = 0x1.8p52, wide = (double)x;
    const double k = (wide * 0x1.45f306dc9c883p-1 + magic) - magic;
    *n = (int32_t)k;
    return (float)((wide - k * 0x1.921fb544p0) - k * 0x1.0b4611a626331p-34);
}

SDBR_INLINE float sdbr_sin_quarter_f4(float r) {
    const float z = r * r;
    float p = -1.95853732e-4f;
    p = p * z + 8.33273679e-3f;
    p = p * z - 1.66666642e-1f;
    return r == 0.0f ? r : r + r * (z * p); /* -0 stays -0 */
}

SDBR_INLINE float sdbr_cos_quarter_f4(float r) {
    const float z = r * r;
    float p = 2.45454194e-5f;
    p = p * z - 1.38882909e-3f;
    p = p * z + 4.16666642e-2f;
    return 1.0f - (0.5f * z - z * z * p);
}

/* sin(x + turns pi / 2) */
SDBR_INLINE float sdbr_turned_f4(float x, int32_t turns) {
    int32_t n;
    const float r = sdbr_quarter_f4(x, &n);
    const uint32_t q = (uint32_t)n + (uint32_t)turns;
    const float y = q & 1 ? sdbr_cos_quarter_f4(r) : sdbr_sin_quarter_f4(r);
    return sdbr_from_bits_f4(sdbr_bits_f4(y) ^ (q & 2) << 30);
}

SDBR_INLINE float sdbr_near_sin_f4(float x) { return sdbr_turned_f4(x, 0); }
SDBR_INLINE float sdbr_near_cos_f4(float x) { return sdbr_turned_f4(x, 1); }

SDBR_INLINE float sdbr_near_tan_f4(float x) {
    int32_t n;
    const float r = sdbr_quarter_f4(x, &n);
    const float s = sdbr_sin_quarter_f4(r), c = sdbr_cos_quarter_f4(r);
    return (n & 1 ? -c : s) / (n & 1 ? s : c);
}

/* arctan(low / high) for 0 <= low <= high; 0 for 0 / 0. Above tan(pi / 8): pi / 4 and what is left. */
SDBR_INLINE float sdbr_arctan_ratio_f4(float low, float high) {
    const float half = high > 0x1p126f ? 0.5f : 1.0f; /* their sum may be too large */
    const float a = low * half, b = high * half;
    const int above = a > 0.41421356f * b;
    const float over = above ? a - b : a, under = above ? a + b : b;
    const float t = over == 0.0f ? 0.0f : over / under, z = t * t;
    float p = -6.45192787e-2f;
    p = p * z + 1.07437313e-1f;
    p = p * z - 1.42639562e-1f;
    p = p * z + 1.99995399e-1f;
    p = p * z - 3.33333313e-1f;
    const float y = t * (z * p);
    return above ? 0x1.921fb6p-1f + (t + (y - 0x1.777a5cp-26f)) : t + y;
}

SDBR_INLINE float sdbr_arctan_f4(float x) {
    const float t = fabsf(x), y = sdbr_arctan_ratio_f4(t > 1.0f ? 1.0f : t, t > 1.0f ? t : 1.0f);
    const float far = 0x1.921fb6p0f - (y + 0x1.777a5cp-25f);
    return x != x ? x : copysignf(t > 1.0f ? far : y, x);
}

SDBR_INLINE float sdbr_arctan2_f4(float y, float x) {
    const float ay = fabsf(y), ax = fabsf(x);
    const int steep = ay > ax, same = ay == ax; /* two infinities, too */
    float t = sdbr_arctan_ratio_f4(steep ? ax : ay, steep ? ay : ax);
    t = same & (ax > 0.0f) ? 0x1.921fb6p-1f : t;
    t = steep ? 0x1.921fb6p0f - (t + 0x1.777a5cp-25f) : t;
    t = sdbr_bits_f4(x) >> 31 ? 0x1.921fb6p1f - (t + 0x1.777a5cp-24f) : t;
    return (x != x) | (y != y) ? x + y : copysignf(t, y);
}

/* arcsin(t) - t over t, z = t t <= 1 / 4 */
SDBR_INLINE float sdbr_arcsin_rest_f4(float z) {
    float p = 3.36908475e-2f;
    p = p * z + 1.71492379e-2f;
    p = p * z + 3.11006624e-2f;
    p = p * z + 4.45994027e-2f;
    p = p * z + 7.50009418e-2f;
    p = p * z + 1.66666657e-1f;
    return p * z;
}

/* Above 1 / 2 by the half angle. */
SDBR_INLINE float sdbr_arcsin_f4(float x) {
    const float t = fabsf(x), z = t > 0.5f ? (1.0f - t) * 0.5f : t * t;
    const float s = t > 0.5f ? sqrtf(z) : t, y = s + s * sdbr_arcsin_rest_f4(z);
    return copysignf(t > 0.5f ? 0x1.921fb6p0f - (2.0f * y + 0x1.777a5cp-25f) : y, x);
}

SDBR_INLINE float sdbr_arccos_f4(float x) {
    const float t = fabsf(x), z = t > 0.5f ? (1.0f - t) * 0.5f : t * t;
    const float s = t > 0.5f ? sqrtf(z) : x, y = s + s * sdbr_arcsin_rest_f4(z);
    const float far = x > 0.0f ? 2.0f * y : 0x1.921fb6p1f - (2.0f * y + 0x1.777a5cp-24f);
    return t > 0.5f ? far : 0x1.921fb6p0f - (y + 0x1.777a5cp-25f);
}

SDBR_INLINE float sdbr_arctanh_f4(float x) {
    const float t = fabsf(x), u = 2.0f * t;
    const float y = 0.5f * sdbr_log1p_f4(u + u * t / (1.0f - t));
    return t > 1.0f ? NAN : copysignf(y, x);
}

/* exp(t / 2): its square does not overflow before half of it does. */
SDBR_INLINE float sdbr_cosh_f4(float x) {
    const float e = sdbr_exp_f4(0.5f * fabsf(x));
    return 0.5f * e * e + 0.5f / (e * e);
}

SDBR_INLINE float sdbr_sinh_f4(float x) {
    const float t = fabsf(x), z = t > 1.0f ? 1.0f : t * t, e = sdbr_exp_f4(0.5f * t);
    float p = 2.80628024e-6f;
    p = p * z + 1.98381022e-4f;
    p = p * z + 8.33333939e-3f;
    p = p * z + 1.66666672e-1f;
    const float far = copysignf(0.5f * e * e - 0.5f / (e * e), x);
    return t > 1.0f ? far : x + x * (z * p);
}

/* log2 and log10: the logarithm of the mantissa by its own factor. */
SDBR_INLINE float sdbr_log_scaled_f4(float x, float high, float low, float factor, float rest) {
    const uint32_t least = 0x3f3504f3u; /* sqrt(1/2) */
    const int denormal = x < 0x1p-126f;
    const uint32_t u = sdbr_bits_f4(denormal ? x * 0x1p25f : x) + (0x3f800000u - least);
    const float e = (float)((int32_t)(u >> 23) - 127) - (denormal ? 25.0f : 0.0f);
    const float f = sdbr_from_bits_f4((u & 0x7fffffu) + least) - 1.0f, s = f / (2.0f + f), z = s * s;
    float p = 2.958215895e-1f;
    p = p * z + 3.998873183e-1f;
    p = p * z + 6.666668516e-1f;
    const float h = 0.5f * f * f, tail = s * (h + z * p) - h, m = f + tail;
    const float lost = tail - (m - f);
    const float y = e * high + (m * factor + (e * low + (lost * factor + m * rest)));
    const float special = x < 0.0f ? NAN : (x == 0.0f ? -INFINITY : x);
    return (x > 0.0f) & (x < INFINITY) ? y : special;
}

SDBR_INLINE float sdbr_log2_f4(float x) {
    return sdbr_log_scaled_f4(x, 1.0f, 0.0f, 0x1.715476p0f, 0x1.4ae0cp-26f);
}
SDBR_INLINE float sdbr_log10_f4(float x) {
    return sdbr_log_scaled_f4(x, 0x1.344p-2f, 0x1.3509f8p-18f, 0x1.bcb7b2p-2f, -0x1.5b235ep-27f);
}

#endif
