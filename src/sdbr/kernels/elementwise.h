/* Elementwise kernels, by dtype. */
#include "arithmetic.h"
#include "special.h"

/* Each op becomes an inner loop over one axis (with the strides that occur vectorised) and two
 * kernels. `contiguous`: ints are [n]; every operand is C-contiguous and of the same shape.
 * `strided`: see sdbr_nd_loop. */
#define SDBR_ATTRIBUTES(count) \
    const T p = (count) > 0 ? (T)floats[0] : (T)0; \
    const T q = (count) > 1 ? (T)floats[1] : (T)0; \
    (void)floats

#define SDBR_UNARY_KERNELS(name, count) \
    SDBR_INLINE void FN(name##_row)(const T *x, T *y, int64_t n, const double *floats) { \
        SDBR_ATTRIBUTES(count); \
        SDBR_IVDEP \
        for (int64_t i = 0; i < n; i++) \
            y[i] = FN(op_##name)(x[i], p, q); \
    } \
    static void FN(name##_inner)(char *const *at, const int64_t *step, int64_t n, const double *floats) { \
        SDBR_ATTRIBUTES(count); \
        if (step[1] == sizeof(T) && step[0] == sizeof(T)) { \
            FN(name##_row)((const T *)at[0], (T *)at[1], n, floats); \
        } else if (step[1] == sizeof(T) && step[0] == 0) { \
            const T v = FN(op_##name)(*(const T *)at[0], p, q); \
            T *y = (T *)at[1]; \
            for (int64_t i = 0; i < n; i++) \
                y[i] = v; \
        } else { \
            for (int64_t i = 0; i < n; i++) { \
                SDBR_SCALAR_LOOP; \
                *(T *)(at[1] + i * step[1]) = FN(op_##name)(*(const T *)(at[0] + i * step[0]), p, q); \
            } \
        } \
    } \
    static int FN(name##_contiguous)(const sdbr_op *op) { \
        FN(name##_row)((const T *)op->operands[0], (T *)op->operands[1], op->ints[0], op->floats); \
        return SDBR_OK; \
    } \
    static int FN(name##_strided)(const sdbr_op *op) { return sdbr_nd_loop(op, 2, FN(name##_inner)); }

/* Steps of the inputs in elements, 0 or 1, are constants wherever this is inlined. */
#define SDBR_BINARY_KERNELS(name, count) \
    SDBR_INLINE void FN(name##_row)(const T *x, int sx, const T *y, int sy, T *z, int64_t n, \
                                    const double *floats) { \
        SDBR_ATTRIBUTES(count); \
        const T x0 = *x, y0 = *y; \
        SDBR_IVDEP \
        for (int64_t i = 0; i < n; i++) \
            z[i] = FN(op_##name)(sx ? x[i] : x0, sy ? y[i] : y0, p, q); \
    } \
    static void FN(name##_inner)(char *const *at, const int64_t *step, int64_t n, const double *floats) { \
        SDBR_ATTRIBUTES(count); \
        const int64_t one = sizeof(T); \
        const T *x = (const T *)at[0], *y = (const T *)at[1]; \
        T *z = (T *)at[2]; \
        if (step[2] == one && step[0] == one && step[1] == one) \
            FN(name##_row)(x, 1, y, 1, z, n, floats); \
        else if (step[2] == one && step[0] == one && step[1] == 0) \
            FN(name##_row)(x, 1, y, 0, z, n, floats); \
        else if (step[2] == one && step[0] == 0 && step[1] == one) \
            FN(name##_row)(x, 0, y, 1, z, n, floats); \
        else \
            for (int64_t i = 0; i < n; i++) { \
                SDBR_SCALAR_LOOP; \
                *(T *)(at[2] + i * step[2]) = FN(op_##name)(*(const T *)(at[0] + i * step[0]), \
                                                            *(const T *)(at[1] + i * step[1]), p, q); \
            } \
    } \
    static int FN(name##_contiguous)(const sdbr_op *op) { \
        const int64_t n = op->ints[0]; \
        if (n > 0) \
            FN(name##_row)((const T *)op->operands[0], 1, (const T *)op->operands[1], 1, (T *)op->operands[2], n, \
                           op->floats); \
        return SDBR_OK; \
    } \
    static int FN(name##_strided)(const sdbr_op *op) { return sdbr_nd_loop(op, 3, FN(name##_inner)); }

#define SDBR_TERNARY_KERNELS(name, count) \
    SDBR_INLINE void FN(name##_row)(const T *x, const T *y, int sy, const T *z, int sz, T *g, int64_t n, \
                                    const double *floats) { \
        SDBR_ATTRIBUTES(count); \
        const T y0 = *y, z0 = *z; \
        SDBR_IVDEP \
        for (int64_t i = 0; i < n; i++) \
            g[i] = FN(op_##name)(x[i], sy ? y[i] : y0, sz ? z[i] : z0, p, q); \
    } \
    static void FN(name##_inner)(char *const *at, const int64_t *step, int64_t n, const double *floats) { \
        SDBR_ATTRIBUTES(count); \
        const int64_t one = sizeof(T); \
        const T *x = (const T *)at[0], *y = (const T *)at[1], *z = (const T *)at[2]; \
        T *g = (T *)at[3]; \
        const int main = step[3] == one && step[0] == one; \
        if (main && step[1] == one && step[2] == one) \
            FN(name##_row)(x, y, 1, z, 1, g, n, floats); \
        else if (main && step[1] == one && step[2] == 0) \
            FN(name##_row)(x, y, 1, z, 0, g, n, floats); \
        else if (main && step[1] == 0 && step[2] == one) \
            FN(name##_row)(x, y, 0, z, 1, g, n, floats); \
        else \
            for (int64_t i = 0; i < n; i++) { \
                SDBR_SCALAR_LOOP; \
                *(T *)(at[3] + i * step[3]) = \
                    FN(op_##name)(*(const T *)(at[0] + i * step[0]), *(const T *)(at[1] + i * step[1]), \
                                  *(const T *)(at[2] + i * step[2]), p, q); \
            } \
    } \
    static int FN(name##_contiguous)(const sdbr_op *op) { \
        const int64_t n = op->ints[0]; \
        if (n > 0) \
            FN(name##_row)((const T *)op->operands[0], (const T *)op->operands[1], 1, \
                           (const T *)op->operands[2], 1, (T *)op->operands[3], n, op->floats); \
        return SDBR_OK; \
    } \
    static int FN(name##_strided)(const sdbr_op *op) { return sdbr_nd_loop(op, 4, FN(name##_inner)); }

SDBR_UNARY(SDBR_UNARY_KERNELS)
SDBR_UNARY_HIDDEN(SDBR_UNARY_KERNELS)
SDBR_BINARY(SDBR_BINARY_KERNELS)
SDBR_BINARY_HIDDEN(SDBR_BINARY_KERNELS)
SDBR_TERNARY(SDBR_TERNARY_KERNELS)

/* NumPy replaces these exponents, too (3 it does not: there the result is the same to rounding). */
#define SDBR_CHOSEN_KERNELS(variant) \
    static int FN(pow_constant_##variant)(const sdbr_op *op) { \
        const double value = op->floats[0]; \
        return value == 2.0    ? FN(square_##variant)(op) \
               : value == 1.0  ? FN(identity_##variant)(op) \
               : value == 0.5  ? FN(sqrt_##variant)(op) \
               : value == -1.0 ? FN(reciprocal_##variant)(op) \
               : value == 3.0  ? FN(cube_##variant)(op) \
               : value == 0.0  ? FN(one_##variant)(op) \
                               : FN(pow_any_##variant)(op); \
    } \
    static int FN(pow_constant_grad_##variant)(const sdbr_op *op) { \
        const double value = op->floats[0]; \
        return value == 2.0   ? FN(square_grad_##variant)(op) \
               : value == 3.0 ? FN(cube_grad_##variant)(op) \
               : value == 1.5 ? FN(sqrt_cube_grad_##variant)(op) \
                              : FN(pow_any_grad_##variant)(op); \
    }

SDBR_CHOSEN_KERNELS(contiguous)
SDBR_CHOSEN_KERNELS(strided)

#undef SDBR_ATTRIBUTES
#undef SDBR_UNARY_KERNELS
#undef SDBR_BINARY_KERNELS
#undef SDBR_TERNARY_KERNELS
#undef SDBR_CHOSEN_KERNELS
