/* Conversions of IEEE half precision, bit by bit, rounding to nearest even. */
#ifndef SDBR_HALF_H
#define SDBR_HALF_H

#include "math/math_f4.h"
#include "math/math_f8.h"

typedef struct sdbr_half {
    uint16_t bits;
} sdbr_half;

/* Without branches, and without a denormal float, which some programs take for 0. */
SDBR_INLINE float sdbr_from_half(sdbr_half h) {
    const uint32_t sign = (uint32_t)(h.bits & 0x8000u) << 16, rest = h.bits & 0x7fffu;
    const uint32_t more = rest >= 0x7c00u ? 224u << 23 : 112u << 23; /* infinity, NaN; others */
    const uint32_t normal = (rest << 13) + more, denormal = sdbr_bits_f4((float)(int32_t)rest * 0x1p-24f);
    return sdbr_from_bits_f4((rest < 0x400u ? denormal : normal) | sign);
}

/* Without branches. */
SDBR_INLINE sdbr_half sdbr_float_to_half(float x) {
    const uint32_t u = sdbr_bits_f4(x), a = u & 0x7fffffffu;
    /* Keep 10 of 23 bits; a carry runs into the exponent as it should. Denormal: units of 2^-24, which
     * are the last bits of 1/2. */
    const uint32_t normal = ((a + 0xfffu + (a >> 13 & 1u)) >> 13) - (112u << 10);
    const uint32_t denormal = sdbr_bits_f4(sdbr_from_bits_f4(a) + 0.5f) - 0x3f000000u;
    uint32_t rest = a < 0x38800000u ? denormal : normal;
    rest = a >= 0x477ff000u ? 0x7c00u : rest; /* half way to 2^16 and beyond */
    rest = a > 0x7f800000u ? 0x7e00u : rest;
    sdbr_half h;
    h.bits = (uint16_t)(rest | (u >> 16 & 0x8000u));
    return h;
}

/* From double directly: by way of float some values would be rounded twice. */
SDBR_INLINE sdbr_half sdbr_to_half(double x) {
    const uint64_t u = sdbr_bits_f8(x);
    const uint16_t sign = (uint16_t)(u >> 48 & 0x8000u);
    const double a = fabs(x);
    sdbr_half h;
    if (a != a) {
        h.bits = (uint16_t)(sign | 0x7e00u);
    } else if (a >= 65520.0) { /* half way to 2^16 and beyond */
        h.bits = (uint16_t)(sign | 0x7c00u);
    } else if (a < 0x1p-14) { /* denormal: units of 2^-24, rounded by adding 2^52 */
        h.bits = (uint16_t)(sign | (sdbr_bits_f8(a * 0x1p24 + 0x1p52) & 0x7ffu));
    } else { /* keep 10 of 52 bits; a carry runs into the exponent as it should */
        const uint64_t v = sdbr_bits_f8(a), odd = v >> 42 & 1u;
        h.bits = (uint16_t)(sign | (((v + 0x1ffffffffffu + odd) >> 42) - ((1023u - 15u) << 10)));
    }
    return h;
}

#endif
