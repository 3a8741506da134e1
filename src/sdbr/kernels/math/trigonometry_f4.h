/* Circular and hyperbolic functions and their inverses for float: branch-free, within 4 ulp; NaN,
 * infinities and signed zeros as in libm. Coefficients as in math_f4.h. */
#ifndef SDBR_TRIGONOMETRY_F4_H
#define SDBR_TRIGONOMETRY_F4_H

#include "math/special_f4.h"

/* Beyond it the multiple of pi / 2 has too many digits: libm has to do. */
#define SDBR_NEAR_F4 0x1p16f

/* x = n pi / 2 + r with |r| <= pi / 4 and a little, for |x| <= SDBR_NEAR_F4; `n` is right in its last bits. */
SDBR_INLINE float sdbr_quarter_f4(float x, uint32_t *n) {
    const float magic = 0x1.8p23f, t = x * 0x1.45f306p-1f + magic, k = t - magic;
    *n = sdbr_bits_f4(t);
#ifdef __FMA__ /* with the first part of pi / 2 exactly, with the second one of 48 bits */
    const float r = __builtin_fmaf(k, 0x1.777a5cp-25f, __builtin_fmaf(k, -0x1.921fb6p0f, x));
    return __builtin_fmaf(k, 0x1.ee59dap-50f, r);
#else
    const double wide = (double)x, turns = (double)k;
    return (float)((wide - turns * 0x1.921fb544p0) - turns * 0x1.0b4611a626331p-34);
#endif
}

SDBR_INLINE float sdbr_sin_quarter_f4(float r) {
    const float z = r * r;
    float p = -1.95853732e-4f;
    p = p * z + 8.33273679e-3f;
    p = p * z - 1.66666642e-1f;
    return r + r * (z * p);
}

SDBR_INLINE float sdbr_cos_quarter_f4(float r) {
    const float z = r * r;
    float p = 2.45454194e-5f;
    p = p * z - 1.38882909e-3f;
    p = p * z + 4.16666642e-2f;
    return 1.0f - (0.5f * z - z * z * p);
}

/* sin(x + turns pi / 2) */
SDBR_INLINE float sdbr_turned_f4(float x, uint32_t turns) {
    uint32_t q;
    const float r = sdbr_quarter_f4(x, &q);
    q += turns;
    const float y = q & 1 ? sdbr_cos_quarter_f4(r) : sdbr_sin_quarter_f4(r);
    return sdbr_from_bits_f4(sdbr_bits_f4(y) ^ (q & 2) << 30);
}

SDBR_INLINE int sdbr_is_plain_sin_f4(float x) { return fabsf(x) <= SDBR_NEAR_F4; }
SDBR_INLINE float sdbr_plain_sin_f4(float x) {
    const float y = sdbr_turned_f4(x, 0);
    return x == 0.0f ? x : y; /* -0 stays -0 */
}
SDBR_INLINE float sdbr_plain_cos_f4(float x) { return sdbr_turned_f4(x, 1); }

SDBR_INLINE float sdbr_plain_tan_f4(float x) {
    uint32_t n;
    const float r = sdbr_quarter_f4(x, &n);
    const float s = sdbr_sin_quarter_f4(r), c = sdbr_cos_quarter_f4(r);
    return x == 0.0f ? x : (n & 1 ? -c : s) / (n & 1 ? s : c);
}

/* arctan(t) for |t| <= tan(pi / 8), and pi / 4 more where it is `above` that. */
SDBR_INLINE float sdbr_arctan_eighth_f4(float t, int above) {
    const float z = t * t;
    float p = -6.45192787e-2f;
    p = p * z + 1.07437313e-1f;
    p = p * z - 1.42639562e-1f;
    p = p * z + 1.99995399e-1f;
    p = p * z - 3.33333313e-1f;
    const float y = t * (z * p);
    return above ? 0x1.921fb6p-1f + (t + (y - 0x1.777a5cp-26f)) : t + y;
}

/* arctan(low / high) for 0 <= low <= high; 0 for 0 / 0. */
SDBR_INLINE float sdbr_arctan_ratio_f4(float low, float high) {
    const float half = high > 0x1p126f ? 0.5f : 1.0f; /* their sum may be too large */
    const float a = low * half, b = high * half;
    const int above = a > 0.41421356f * b;
    const float over = above ? a - b : a, under = above ? a + b : b;
    return sdbr_arctan_eighth_f4(over == 0.0f ? 0.0f : over / under, above);
}

SDBR_INLINE float sdbr_arctan_f4(float x) {
    const float t = fabsf(x), a = t > 1.0f ? 1.0f : t, b = t > 1.0f ? t : 1.0f;
    const int above = a > 0.41421356f * b;
    const float y = sdbr_arctan_eighth_f4((above ? a - b : a) / (above ? a + b : b), above);
    const float far = 0x1.921fb6p0f - (y + 0x1.777a5cp-25f);
    return copysignf(t > 1.0f ? far : y, x);
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
    const float y = copysignf(0.5f * sdbr_plain_log1p_f4(u + u * t / (1.0f - t)), x);
    return t < 1.0f ? y : (t == 1.0f ? x * INFINITY : NAN);
}

/* Where 2^n of x = n ln 2 + r and its inverse are normal numbers. */
SDBR_INLINE int sdbr_is_plain_sinh_f4(float x) { return fabsf(x) <= 86.0f; }

/* sinh(n ln 2 + r) = sinh(n ln 2) cosh(r) + cosh(n ln 2) sinh(r), or cosh likewise: no cancellation near 0. */
SDBR_INLINE float sdbr_hyperbolic_f4(float x, int is_sinh) {
    const float magic = 0x1.8p23f, t = x * 0x1.715476p0f + magic, k = t - magic;
    const uint32_t n = sdbr_bits_f4(t) << 23;
    float r = x - k * 0x1.62e4p-1f;
    r = r - k * 0x1.7f7d1cp-20f;
    const float z = r * r;
    float s = 1.98919813e-4f; /* 0.01 ulp */
    s = s * z + 8.33331002e-3f;
    s = s * z + 1.66666667e-1f;
    s = r + r * (z * s);
    float c = 1.39193139e-3f; /* 0.01 ulp */
    c = c * z + 4.16666201e-2f;
    c = c * z + 0.5f;
    c = z * c;
    const float up = sdbr_from_bits_f4((126u << 23) + n), down = sdbr_from_bits_f4((126u << 23) - n);
    const float even = up + down, odd = up - down;
    return is_sinh ? copysignf(even * s + (odd + odd * c), x) : even + (even * c + odd * s);
}
SDBR_INLINE float sdbr_plain_sinh_f4(float x) { return sdbr_hyperbolic_f4(x, 1); }
SDBR_INLINE float sdbr_plain_cosh_f4(float x) { return sdbr_hyperbolic_f4(x, 0); }

/* Far from 0 both are half of exp; the square of exp(t / 2) does not overflow before that does. */
SDBR_INLINE float sdbr_cosh_f4(float x) {
    const float e = sdbr_exp_f4(0.5f * fabsf(x)), y = sdbr_plain_cosh_f4(x);
    return sdbr_is_plain_sinh_f4(x) ? y : 0.5f * e * e;
}

SDBR_INLINE float sdbr_sinh_f4(float x) {
    const float e = sdbr_exp_f4(0.5f * fabsf(x)), y = sdbr_plain_sinh_f4(x);
    return sdbr_is_plain_sinh_f4(x) ? y : copysignf(0.5f * e * e, x);
}

/* log2 and log10: the logarithm of the mantissa by its own factor. `u` and `less` as in sdbr_log_of_bits_f4. */
SDBR_INLINE float sdbr_log_scaled_of_bits_f4(uint32_t u, float less, float high, float low, float factor,
                                             float rest) {
    const float e = (float)((int32_t)(u >> 23) - 127) - less;
    const float f = sdbr_from_bits_f4((u & 0x7fffffu) + SDBR_LEAST_F4) - 1.0f, s = f / (2.0f + f), z = s * s;
    float p = 2.958215895e-1f;
    p = p * z + 3.998873183e-1f;
    p = p * z + 6.666668516e-1f;
    const float h = 0.5f * f * f, tail = s * (h + z * p) - h; /* log(1 + f) - f */
    return e * high + (f * factor + (e * low + (tail * factor + f * rest)));
}

SDBR_INLINE float sdbr_log_scaled_f4(float x, float high, float low, float factor, float rest) {
    const int denormal = x < 0x1p-126f;
    const uint32_t u = sdbr_bits_f4(denormal ? x * 0x1p25f : x) + (0x3f800000u - SDBR_LEAST_F4);
    const float y = sdbr_log_scaled_of_bits_f4(u, denormal ? 25.0f : 0.0f, high, low, factor, rest);
    const float special = x < 0.0f ? NAN : (x == 0.0f ? -INFINITY : x);
    return (x > 0.0f) & (x < INFINITY) ? y : special;
}

#define SDBR_LOG2_F4 1.0f, 0.0f, 0x1.715476p0f, 0x1.4ae0cp-26f
#define SDBR_LOG10_F4 0x1.344p-2f, 0x1.3509f8p-18f, 0x1.bcb7b2p-2f, -0x1.5b235ep-27f
SDBR_INLINE float sdbr_log2_f4(float x) { return sdbr_log_scaled_f4(x, SDBR_LOG2_F4); }
SDBR_INLINE float sdbr_log10_f4(float x) { return sdbr_log_scaled_f4(x, SDBR_LOG10_F4); }
SDBR_INLINE float sdbr_plain_log2_f4(float x) {
    return sdbr_log_scaled_of_bits_f4(sdbr_bits_f4(x) + (0x3f800000u - SDBR_LEAST_F4), 0.0f, SDBR_LOG2_F4);
}
SDBR_INLINE float sdbr_plain_log10_f4(float x) {
    return sdbr_log_scaled_of_bits_f4(sdbr_bits_f4(x) + (0x3f800000u - SDBR_LEAST_F4), 0.0f, SDBR_LOG10_F4);
}

#endif
