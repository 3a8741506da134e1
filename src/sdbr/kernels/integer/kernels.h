/* Kernels over any strides. ints: as sdbr_nd_loop; operands x, y, z, but for `count`. */
#ifndef SDBR_INTEGER_H
#define SDBR_INTEGER_H

#include "frame/nd_loop.h"

/* X(name, dtype, type, expression of a and b) */
#define SDBR_COMPARE_OF(X, name, operator) \
    X(name, f4, float, a operator b) \
    X(name, f8, double, a operator b) \
    X(name, i4, int32_t, a operator b) \
    X(name, i8, int64_t, a operator b)
#define SDBR_COMPARE_KINDS(X) \
    SDBR_COMPARE_OF(X, eq, ==) \
    SDBR_COMPARE_OF(X, ne, !=) \
    SDBR_COMPARE_OF(X, lt, <) \
    SDBR_COMPARE_OF(X, le, <=) \
    SDBR_COMPARE_OF(X, gt, >) \
    SDBR_COMPARE_OF(X, ge, >=)

/* Unsigned, because signed numbers may not overflow. */
#define SDBR_WRAPPING(X, name, operator) \
    X(name, i4, int32_t, (int32_t)((uint32_t)a operator (uint32_t)b)) \
    X(name, i8, int64_t, (int64_t)((uint64_t)a operator (uint64_t)b))
#define SDBR_CHOOSING(X, name, operator) \
    X(name, i4, int32_t, a operator b ? a : b) \
    X(name, i8, int64_t, a operator b ? a : b)
#define SDBR_LOGICAL(X, name, operator) \
    X(name, i4, int32_t, a operator b) \
    X(name, i8, int64_t, a operator b) \
    X(name, b1, uint8_t, (uint8_t)((a != 0) operator (b != 0)))
#define SDBR_INTEGER_KINDS(X) \
    SDBR_WRAPPING(X, add, +) \
    SDBR_WRAPPING(X, sub, -) \
    SDBR_WRAPPING(X, mul, *) \
    SDBR_CHOOSING(X, max, >) \
    SDBR_CHOOSING(X, min, <) \
    SDBR_LOGICAL(X, and, &) \
    SDBR_LOGICAL(X, or, |) \
    SDBR_LOGICAL(X, xor, ^)

/* y as long as x, or one number for all; else element by element. */
#define SDBR_DEFINE_KERNEL(kernel, type, result, expression) \
    static void kernel##_inner(char *const *at, const int64_t *step, int64_t n, const double *floats) { \
        (void)floats; \
        if (step[0] == sizeof(type) && step[2] == sizeof(result) && (step[1] == 0 || step[1] == sizeof(type))) { \
            const type *x = (const type *)at[0], *y = (const type *)at[1]; \
            const type y0 = *y; \
            const int one = step[1] == 0; \
            result *z = (result *)at[2]; \
            SDBR_IVDEP \
            for (int64_t i = 0; i < n; i++) { \
                const type a = x[i], b = one ? y0 : y[i]; \
                z[i] = (result)(expression); \
            } \
            return; \
        } \
        for (int64_t i = 0; i < n; i++) { \
            SDBR_SCALAR_LOOP; \
            const type a = *(const type *)(at[0] + i * step[0]), b = *(const type *)(at[1] + i * step[1]); \
            *(result *)(at[2] + i * step[2]) = (result)(expression); \
        } \
    } \
    static int kernel(const sdbr_op *op) { return sdbr_nd_loop(op, 3, kernel##_inner); }

#define SDBR_DEFINE_COMPARE(name, dtype, type, expression) \
    SDBR_DEFINE_KERNEL(compare_##name##_##dtype, type, uint8_t, expression)
#define SDBR_DEFINE_INTEGER(name, dtype, type, expression) \
    SDBR_DEFINE_KERNEL(integer_##name##_##dtype, type, type, expression)
SDBR_COMPARE_KINDS(SDBR_DEFINE_COMPARE)
SDBR_INTEGER_KINDS(SDBR_DEFINE_INTEGER)

/* ints: [n]; side by side. */
static int count_b1(const sdbr_op *op) {
    enum { BLOCK = 1 << 16 };
    const uint8_t *x = (const uint8_t *)op->operands[0];
    int64_t total = 0;
    for (int64_t i = 0; i < op->ints[0]; i += BLOCK) {
        const int64_t n = op->ints[0] - i < BLOCK ? op->ints[0] - i : BLOCK;
        uint32_t some = 0;
        for (int64_t k = 0; k < n; k++)
            some += x[i + k] != 0;
        total += some;
    }
    *(double *)op->operands[1] = (double)total;
    return SDBR_OK;
}

#undef SDBR_DEFINE_KERNEL
#undef SDBR_DEFINE_COMPARE
#undef SDBR_DEFINE_INTEGER

#endif
