/* Elementwise ops, of the element functions that the kernels of the CPU consist of. SDBR_ELEMENTS_<layout>(op, number of
 * inputs, number of float attributes) is a kernel. */
#ifndef SDBR_DEVICE_ELEMENTWISE_CUH
#define SDBR_DEVICE_ELEMENTWISE_CUH

#include <math.h>

#include "device/places.cuh"

#include "math/erf_f8.h"
#include "math/gamma_f4.h"
#include "math/power_f4.h"
#include "math/math_f8.h"
#include "math/special_f4.h"
#include "math/special_f8.h"
#include "math/trigonometry_f4.h"

/* How many times `lanes` elements at once: none, where an operand does not begin at 16 bytes. */
SDBR_INLINE int64_t sdbr_packs(const sdbr_device_op *op, int n_operands, int64_t n, int lanes) {
    uintptr_t bits = 0;
    for (int k = 0; k < n_operands; k++)
        bits |= (uintptr_t)sdbr_at(op, k);
    return bits & 15 ? 0 : n / lanes;
}

typedef struct sdbr_pack_f4 {
    float v[4];
} __attribute__((aligned(16))) sdbr_pack_f4;

typedef struct sdbr_pack_f8 {
    double v[2];
} __attribute__((aligned(16))) sdbr_pack_f8;

#define SDBR_CALL_1(name) FN(op_##name)(*(const T *)at[0], p, q)
#define SDBR_CALL_2(name) FN(op_##name)(*(const T *)at[0], *(const T *)at[1], p, q)
#define SDBR_CALL_3(name) FN(op_##name)(*(const T *)at[0], *(const T *)at[1], *(const T *)at[2], p, q)

#define SDBR_ELEMENTS(name, layout, inputs, count, length, places) \
    SDBR_INLINE void FN(name##_##layout##_team)(sdbr_team team, const sdbr_device_op *op) { \
        const T p = (count) > 0 ? (T)op->floats[0] : (T)0, q = (count) > 1 ? (T)op->floats[1] : (T)0; \
        const int64_t n = length; \
        char *operands[(inputs) + 1], *at[(inputs) + 1]; \
        for (int k = 0; k < (inputs) + 1; k++) \
            operands[k] = sdbr_at(op, k); \
        for (int64_t i = sdbr_first(team); i < n; i += sdbr_stride(team)) { \
            places(op->ints, (inputs) + 1, i, operands, at, (int64_t)sizeof(T)); \
            *(T *)at[inputs] = SDBR_CALL_##inputs(name); \
        } \
    } \
    SDBR_KERNEL(FN(name##_##layout), FN(name##_##layout##_team))

#define SDBR_ELEMENTS_contiguous(name, inputs, count) \
    SDBR_ELEMENTS(name, contiguous, inputs, count, op->ints[0], sdbr_place_contiguous)
#define SDBR_ELEMENTS_strided(name, inputs, count) \
    SDBR_ELEMENTS(name, strided, inputs, count, sdbr_count(op->ints), sdbr_place_strided)

#endif
