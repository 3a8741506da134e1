/* The functions of math_f4.h for double: within 4 ulp. There is no 64-bit arithmetic shift and no
 * conversion between int64 and double below AVX-512, so exponents are handled as unsigned
 * integers with a bias and by adding 1.5 * 2^52. */
#ifndef SDBR_MATH_F8_H
#define SDBR_MATH_F8_H

#include "frame/template.h"

SDBR_INLINE uint64_t sdbr_bits_f8(double x) {
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

SDBR_INLINE double sdbr_from_bits_f8(uint64_t u) {
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* As in math_f4.h; n is modulo 2^64. */
SDBR_INLINE double sdbr_exp_reduce_f8(double x, uint64_t *n) {
    const double magic = 0x1.8p52;
    double t = x * 0x1.71547652b82fep0 + magic;
    double k = t - magic;
    *n = sdbr_bits_f8(t) - sdbr_bits_f8(magic);
    double r = x - k * 0x1.62e42feep-1;
    r = r - k * 0x1.a39ef35793c76p-33;
    double p = 2.0915442297780115216e-9; /* 0.002 ulp */
    p = p * r + 2.5106274733573294687e-8;
    p = p * r + 2.7557271810219799569e-7;
    p = p * r + 2.7557252833516909748e-6;
    p = p * r + 2.4801587327007186731e-5;
    p = p * r + 1.9841269876864354929e-4;
    p = p * r + 1.3888888888883326674e-3;
    p = p * r + 8.3333333333255446996e-3;
    p = p * r + 4.1666666666666670074e-2;
    p = p * r + 1.6666666666666671438e-1;
    p = p * r + 0.5;
    return r + r * r * p;
}

SDBR_INLINE double sdbr_exp_f8(double x) {
    uint64_t n;
    x = x > 710.0 ? 710.0 : x;
    x = x < -746.0 ? -746.0 : x;
    double p = 1.0 + sdbr_exp_reduce_f8(x, &n);
    uint64_t half = ((n + 2048u) >> 1) - 1024u; /* floor(n / 2) for n >= -2048 */
    double a = sdbr_from_bits_f8((half + 1023u) << 52);
    double b = sdbr_from_bits_f8((n - half + 1023u) << 52);
    return p * a * b;
}

SDBR_INLINE double sdbr_expm1_bounded_f8(double x) {
    uint64_t n;
    double p = sdbr_exp_reduce_f8(x, &n);
    double s = sdbr_from_bits_f8((n + 1023u) << 52);
    return s * p + (s - 1.0);
}

SDBR_INLINE double sdbr_expm1_negative_f8(double x) {
    return sdbr_expm1_bounded_f8(x < -60.0 ? -60.0 : x);
}

SDBR_INLINE double sdbr_tanh_half_f8(double x) {
    double t = sdbr_expm1_bounded_f8(x > 40.0 ? 40.0 : x);
    return t / (t + 2.0);
}

SDBR_INLINE double sdbr_tanh_f8(double x) {
    return copysign(sdbr_tanh_half_f8(2.0 * fabs(x)), x);
}

SDBR_INLINE double sdbr_log_f8(double x) {
    const uint64_t low = 0x3fe6a09e667f3bcdu; /* sqrt(1/2) */
    int denormal = x < 0x1p-1022;
    double scaled = denormal ? x * 0x1p54 : x;
    uint64_t u = sdbr_bits_f8(scaled) + (0x3ff0000000000000u - low);
    /* The biased exponent as the low bits of a double in [2^52, 2^53). */
    double e = sdbr_from_bits_f8((u >> 52) | 0x4330000000000000u) - (0x1p52 + 1023.0);
    e = e - (denormal ? 54.0 : 0.0);
    double f = sdbr_from_bits_f8((u & 0xfffffffffffffu) + low) - 1.0;
    double s = f / (2.0 + f);
    double z = s * s;
    double p = 1.4619343453512615192e-1; /* 0.04 ulp */
    p = p * z + 1.533148723586573324e-1;
    p = p * z + 1.818289618348308656e-1;
    p = p * z + 2.2222211037816587724e-1;
    p = p * z + 2.8571428626570203622e-1;
    p = p * z + 3.9999999999898191947e-1;
    p = p * z + 6.6666666666666697321e-1;
    double h = 0.5 * f * f;
    double y = s * (h + z * p) + e * 0x1.a39ef35793c76p-33;
    y = e * 0x1.62e42feep-1 - ((h - y) - f);
    double special = x < 0.0 ? NAN : (x == 0.0 ? -INFINITY : x);
    return (x > 0.0) & (x < INFINITY) ? y : special;
}

SDBR_INLINE double sdbr_log_from_one_f8(double x) { return sdbr_log_f8(x); }

SDBR_INLINE double sdbr_log1p_unit_f8(double u) {
    double s = u / (2.0 + u);
    double z = s * s;
    double p = 1.6164045611943532221e-1; /* 0.05 ulp */
    p = p * z + 8.8007384861446738822e-2;
    p = p * z + 1.2001072809590712535e-1;
    p = p * z + 1.331414420965493615e-1;
    p = p * z + 1.5385570064958623103e-1;
    p = p * z + 1.8181789436132858169e-1;
    p = p * z + 2.2222222717427862989e-1;
    p = p * z + 2.8571428567108757162e-1;
    p = p * z + 4.0000000000014582673e-1;
    p = p * z + 6.6666666666666658561e-1;
    return 2.0 * s + s * z * p;
}

/* No float, so the C library's. */
SDBR_INLINE double sdbr_pow_f8(double x, double y) { return pow(x, y); }
SDBR_INLINE double sdbr_plain_pow_f8(double x, double y) { return pow(x, y); }
SDBR_INLINE int sdbr_is_plain_pow_f8(double x, double y) { return (void)x, (void)y, 1; }

#endif
