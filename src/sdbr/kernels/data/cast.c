/* Casts and fills, the same for every SIMD level: they are bound by memory, and they are many. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "frame/abi.h"
#include "data/cast.h"

#define DEFINE_CAST(a, b) \
    SDBR_CAST_INNER(a, b) \
    int sdbr_cast_##a##_##b(const sdbr_op *op) { return sdbr_nd_loop(op, 2, cast_inner_##a##_##b); }
#define DEFINE_FILL(b) \
    SDBR_FILL_INNER(b) \
    int sdbr_fill_##b(const sdbr_op *op) { return sdbr_nd_loop(op, 1, fill_inner_##b); }

SDBR_CASTS(DEFINE_CAST)
SDBR_FILLS(DEFINE_FILL)
