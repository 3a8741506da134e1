/* The inner loops of casts between all dtypes but the complex ones, and of fills. */
#ifndef SDBR_CAST_H
#define SDBR_CAST_H

#include "data/cast_names.h"
#include "math/half.h"
#include "frame/nd_loop.h"

typedef struct sdbr_bool {
    uint8_t byte;
} sdbr_bool;

/* LOAD_x(p) is a number, STORE_x(number) a value of type TYPE_x. Out of range, a conversion to an
 * integer gives what the compiler gives, in C as in NumPy. */
#define TYPE_f4 float
#define TYPE_f8 double
#define TYPE_f2 sdbr_half
#define TYPE_b1 sdbr_bool
#define TYPE_i1 int8_t
#define TYPE_i2 int16_t
#define TYPE_i4 int32_t
#define TYPE_i8 int64_t
#define TYPE_u1 uint8_t
#define TYPE_u2 uint16_t
#define TYPE_u4 uint32_t
#define TYPE_u8 uint64_t

#define LOAD_f4(v) (v)
#define LOAD_f8(v) (v)
#define LOAD_f2(v) sdbr_from_half(v)
#define LOAD_b1(v) ((uint8_t)((v).byte != 0))
#define LOAD_i1(v) (v)
#define LOAD_i2(v) (v)
#define LOAD_i4(v) (v)
#define LOAD_i8(v) (v)
#define LOAD_u1(v) (v)
#define LOAD_u2(v) (v)
#define LOAD_u4(v) (v)
#define LOAD_u8(v) (v)

#define STORE_f4(v) ((float)(v))
#define STORE_f8(v) ((double)(v))
#define STORE_f2(v) \
    (__builtin_types_compatible_p(__typeof__(v), float) ? sdbr_float_to_half((float)(v)) : sdbr_to_half((double)(v)))
#define STORE_b1(v) ((sdbr_bool){(uint8_t)((v) != 0)})
#define STORE_i1(v) ((int8_t)(v))
#define STORE_i2(v) ((int16_t)(v))
#define STORE_i4(v) ((int32_t)(v))
#define STORE_i8(v) ((int64_t)(v))
#define STORE_u1(v) ((uint8_t)(v))
#define STORE_u2(v) ((uint16_t)(v))
#define STORE_u4(v) ((uint32_t)(v))
#define STORE_u8(v) ((uint64_t)(v))

#define SDBR_CAST_INNER(a, b) \
    static void cast_inner_##a##_##b(char *const *at, const int64_t *step, int64_t n, const double *floats) { \
        (void)floats; \
        if (step[0] == sizeof(TYPE_##a) && step[1] == sizeof(TYPE_##b)) { \
            const TYPE_##a *x = (const TYPE_##a *)at[0]; \
            TYPE_##b *y = (TYPE_##b *)at[1]; \
            SDBR_IVDEP \
            for (int64_t i = 0; i < n; i++) \
                y[i] = STORE_##b(LOAD_##a(x[i])); \
        } else { \
            for (int64_t i = 0; i < n; i++) \
                *(TYPE_##b *)(at[1] + i * step[1]) = STORE_##b(LOAD_##a(*(const TYPE_##a *)(at[0] + i * step[0]))); \
        } \
    }

#define SDBR_FILL_INNER(b) \
    static void fill_inner_##b(char *const *at, const int64_t *step, int64_t n, const double *floats) { \
        const TYPE_##b v = STORE_##b(floats[0]); \
        if (step[0] == sizeof(TYPE_##b)) { \
            for (int64_t i = 0; i < n; i++) \
                ((TYPE_##b *)at[0])[i] = v; \
        } else { \
            for (int64_t i = 0; i < n; i++) \
                *(TYPE_##b *)(at[0] + i * step[0]) = v; \
        } \
    }

#endif
