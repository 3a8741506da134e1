/* Casts between float16 and float32, which programs in half precision are full of: with the vectors of each level. */
#ifndef SDBR_HALF_CASTS_H
#define SDBR_HALF_CASTS_H

#include "data/cast.h"

SDBR_CAST_INNER(f2, f4)
SDBR_CAST_INNER(f4, f2)

#if SDBR_GEMM_BYTES == 64
SDBR_INLINE __mmask16 half_lanes(int64_t left) {
    return (__mmask16)(left >= 16 ? 0xffffu : (1u << left) - 1);
}

static void widen_halves(char *const *at, const int64_t *step, int64_t n, const double *floats) {
    if (step[0] != 2 || step[1] != 4) {
        cast_inner_f2_f4(at, step, n, floats);
        return;
    }
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 lanes = half_lanes(n - i);
        const __m256i x = _mm256_maskz_loadu_epi16(lanes, at[0] + 2 * i);
        _mm512_mask_storeu_ps(at[1] + 4 * i, lanes, _mm512_cvtph_ps(x));
    }
}

static void round_to_halves(char *const *at, const int64_t *step, int64_t n, const double *floats) {
    if (step[0] != 4 || step[1] != 2) {
        cast_inner_f4_f2(at, step, n, floats);
        return;
    }
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 lanes = half_lanes(n - i);
        const __m512 x = _mm512_maskz_loadu_ps(lanes, at[0] + 4 * i);
        _mm256_mask_storeu_epi16(at[1] + 2 * i, lanes,
                                 _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
}
#else
#define widen_halves cast_inner_f2_f4
#define round_to_halves cast_inner_f4_f2
#endif

static int half_to_float(const sdbr_op *op) {
    return sdbr_nd_loop(op, 2, widen_halves);
}
static int float_to_half(const sdbr_op *op) {
    return sdbr_nd_loop(op, 2, round_to_halves);
}

/* In the registry of the level these stand in the place of those of cast.c. */
#define sdbr_cast_f2_f4 half_to_float
#define sdbr_cast_f4_f2 float_to_half

#endif
