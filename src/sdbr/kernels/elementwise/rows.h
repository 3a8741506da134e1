/* Elementwise ops over contiguous rows: macros that make FN(name##_row) of FN(op_##name). Both the kernels
 * of one op (walks.h) and the steps of a fused one consist of them. */
#ifndef SDBR_ELEMENTWISE_ROWS_H
#define SDBR_ELEMENTWISE_ROWS_H

#include "frame/template.h"

#define SDBR_ATTRIBUTES(count) \
    const T p = (count) > 0 ? (T)floats[0] : (T)0; \
    const T q = (count) > 1 ? (T)floats[1] : (T)0; \
    (void)floats

#define SDBR_UNARY_ROW(name, count) \
    SDBR_INLINE void FN(name##_row)(const T *x, T *y, int64_t n, const double *floats) { \
        SDBR_ATTRIBUTES(count); \
        SDBR_IVDEP \
        for (int64_t i = 0; i < n; i++) \
            y[i] = FN(op_##name)(x[i], p, q); \
    }

/* Of FN(plain_##name) where all of some elements are plain, as FN(is_plain_##name) says, else of FN(op_##name). */
#define SDBR_GUARDED_ROW(name) \
    SDBR_INLINE void FN(name##_row)(const T *x, T *y, int64_t n, const double *floats) { \
        (void)floats; \
        for (int64_t i = 0; i < n; i += 256) { \
            const int64_t end = n - i < 256 ? n : i + 256; \
            int other = 0; \
            for (int64_t k = i; k < end; k++) \
                other |= !FN(is_plain_##name)(x[k]); \
            if (other) { \
                SDBR_IVDEP \
                for (int64_t k = i; k < end; k++) \
                    y[k] = FN(op_##name)(x[k], 0, 0); \
            } else { \
                SDBR_IVDEP \
                for (int64_t k = i; k < end; k++) \
                    y[k] = FN(plain_##name)(x[k]); \
            } \
        } \
    }

/* Steps of the inputs in elements, 0 or 1, are constants wherever this is inlined. */
#define SDBR_BINARY_ROW(name, count) \
    SDBR_INLINE void FN(name##_row)(const T *x, int sx, const T *y, int sy, T *z, int64_t n, \
                                    const double *floats) { \
        SDBR_ATTRIBUTES(count); \
        const T x0 = *x, y0 = *y; \
        SDBR_IVDEP \
        for (int64_t i = 0; i < n; i++) \
            z[i] = FN(op_##name)(sx ? x[i] : x0, sy ? y[i] : y0, p, q); \
    }

#define SDBR_TERNARY_ROW(name, count) \
    SDBR_INLINE void FN(name##_row)(const T *x, const T *y, int sy, const T *z, int sz, T *g, int64_t n, \
                                    const double *floats) { \
        SDBR_ATTRIBUTES(count); \
        const T y0 = *y, z0 = *z; \
        SDBR_IVDEP \
        for (int64_t i = 0; i < n; i++) \
            g[i] = FN(op_##name)(x[i], sy ? y[i] : y0, sz ? z[i] : z0, p, q); \
    }

#endif
