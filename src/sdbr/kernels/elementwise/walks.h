/* The kernels of elementwise ops: macros that make an inner loop over one axis of FN(name##_row) (with
 * the strides that occur vectorised) and two kernels of it. `contiguous`: ints are [n]; every operand
 * is C-contiguous and of the same shape. `strided`: see sdbr_nd_loop. */
#ifndef SDBR_ELEMENTWISE_WALKS_H
#define SDBR_ELEMENTWISE_WALKS_H

#include "elementwise/rows.h"
#include "frame/nd_loop.h"

#define SDBR_UNARY_KERNELS(name, count) SDBR_UNARY_ROW(name, count) SDBR_UNARY_WALKS(name, count)
#define SDBR_GUARDED_KERNELS(name, count) SDBR_GUARDED_ROW(name) SDBR_UNARY_WALKS(name, count)
#define SDBR_UNARY_WALKS(name, count) \
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

#define SDBR_BINARY_KERNELS(name, count) SDBR_BINARY_ROW(name, count) SDBR_BINARY_WALKS(name, count)
#define SDBR_BINARY_WALKS(name, count) \
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

#define SDBR_TERNARY_KERNELS(name, count) SDBR_TERNARY_ROW(name, count) SDBR_TERNARY_WALKS(name, count)
#define SDBR_TERNARY_WALKS(name, count) \
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
        else if (main && step[1] == 0 && step[2] == 0) \
            FN(name##_row)(x, y, 0, z, 0, g, n, floats); \
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

#define SDBR_ELEMENTWISE_ENTRY(name, count) SDBR_ENTRY(name##_contiguous) SDBR_ENTRY(name##_strided)

#endif
