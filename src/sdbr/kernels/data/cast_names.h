/* The casts and fills of cast.c. A name is made of NumPy's codes: cast_i4_f8 reads int32 and
 * writes float64. ints: as sdbr_nd_loop. */
#ifndef SDBR_CAST_NAMES_H
#define SDBR_CAST_NAMES_H

#include "frame/abi.h"

#define SDBR_CASTS_FROM(X, a) \
    X(a, f4) X(a, f8) X(a, f2) X(a, b1) X(a, i1) X(a, i2) X(a, i4) X(a, i8) X(a, u1) X(a, u2) X(a, u4) X(a, u8)
#define SDBR_CASTS(X) \
    SDBR_CASTS_FROM(X, f4) \
    SDBR_CASTS_FROM(X, f8) \
    SDBR_CASTS_FROM(X, f2) \
    SDBR_CASTS_FROM(X, b1) \
    SDBR_CASTS_FROM(X, i1) \
    SDBR_CASTS_FROM(X, i2) \
    SDBR_CASTS_FROM(X, i4) \
    SDBR_CASTS_FROM(X, i8) \
    SDBR_CASTS_FROM(X, u1) \
    SDBR_CASTS_FROM(X, u2) \
    SDBR_CASTS_FROM(X, u4) \
    SDBR_CASTS_FROM(X, u8)
#define SDBR_FILLS(X) X(f4) X(f8) X(f2) X(b1) X(i1) X(i2) X(i4) X(i8) X(u1) X(u2) X(u4) X(u8)

#define SDBR_DECLARE_CAST(a, b) int sdbr_cast_##a##_##b(const sdbr_op *op);
#define SDBR_DECLARE_FILL(b) int sdbr_fill_##b(const sdbr_op *op);
SDBR_CASTS(SDBR_DECLARE_CAST)
SDBR_FILLS(SDBR_DECLARE_FILL)

#define SDBR_CAST_ENTRY(a, b) {"cast_" #a "_" #b, sdbr_cast_##a##_##b},
#define SDBR_FILL_ENTRY(b) {"fill_" #b, sdbr_fill_##b},
#define SDBR_CAST_ENTRIES SDBR_CASTS(SDBR_CAST_ENTRY) SDBR_FILLS(SDBR_FILL_ENTRY)

#endif
