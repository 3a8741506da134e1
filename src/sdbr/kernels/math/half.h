/* Conversions of IEEE half precision, bit by bit, rounding to nearest even. */
#ifndef SDBR_HALF_H
#define SDBR_HALF_H

#include "math/math_f4.h"
#include "math/math_f8.h"

typedef struct sdbr_half {
    uint16_t bits;
} sdbr_half;

SDBR_INLINE float sdbr_from_half(sdbr_half h) {
    const uint32_t sign = (uint32_t)(h.bits & 0x8000u) << 16, rest = h.bits & 0x7fffu;
    if (rest >= 0x7c00u) /* infinity, NaN */
        return sdbr_from_bits_f4(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    /* Halves are floats with an exponent that is too small by 112; a multiplication mends it,
     * for denormals as well. */
    const float x = sdbr_from_bits_f4(rest << 13) * 0x1p112f;
    return sdbr_from_bits_f4(sdbr_bits_f4(x) | sign);
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
