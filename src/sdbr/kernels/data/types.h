/* The types of all dtypes but the complex ones, and how a number is taken from each and stored. */
#ifndef SDBR_TYPES_H
#define SDBR_TYPES_H

#include "math/half.h"

typedef struct sdbr_bool {
    uint8_t byte;
} sdbr_bool;

SDBR_INLINE sdbr_bool sdbr_bool_of(int is_true) {
    sdbr_bool b;
    b.byte = (uint8_t)is_true;
    return b;
}

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
/* A number may be a float, for which there is a shorter way. */
#if defined(__cplusplus)
#define STORE_f2(v) sdbr_to_half((double)(v))
#else
#define STORE_f2(v) \
    (__builtin_types_compatible_p(__typeof__(v), float) ? sdbr_float_to_half((float)(v)) : sdbr_to_half((double)(v)))
#endif
#define STORE_b1(v) sdbr_bool_of((v) != 0)
#define STORE_i1(v) ((int8_t)(v))
#define STORE_i2(v) ((int16_t)(v))
#define STORE_i4(v) ((int32_t)(v))
#define STORE_i8(v) ((int64_t)(v))
#define STORE_u1(v) ((uint8_t)(v))
#define STORE_u2(v) ((uint16_t)(v))
#define STORE_u4(v) ((uint32_t)(v))
#define STORE_u8(v) ((uint64_t)(v))

#endif
