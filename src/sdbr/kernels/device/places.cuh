/* Where elements lie. Integers as in elementwise/walks.h: `contiguous`: [n]; `strided`: [ndim, shape, strides of each
 * operand in bytes]. */
#ifndef SDBR_PLACES_CUH
#define SDBR_PLACES_CUH

#include "device/team.cuh"

/* Elements of one operand that a team does at a time, where a launch does several ops: as in backends/cuda/together.py. */
enum { SDBR_PIECE = 1024 };

/* Where element i lies in each of `n_operands` operands. */
SDBR_INLINE void sdbr_place_contiguous(const int64_t *ints, int n_operands, int64_t i, char *const *operands,
                                       char **at, int64_t bytes) {
    (void)ints;
    for (int k = 0; k < n_operands; k++)
        at[k] = operands[k] + i * bytes;
}

SDBR_INLINE void sdbr_place_strided(const int64_t *ints, int n_operands, int64_t i, char *const *operands, char **at,
                                    int64_t bytes) {
    const int64_t ndim = ints[0], *shape = ints + 1, *strides = shape + ndim;
    uint64_t rest = (uint64_t)i;
    (void)bytes;
    for (int k = 0; k < n_operands; k++)
        at[k] = operands[k];
    for (int64_t d = ndim - 1; d >= 0; d--) {
        const uint64_t length = (uint64_t)shape[d], left = rest / length;
        const int64_t index = (int64_t)(rest - left * length);
        for (int k = 0; k < n_operands; k++)
            at[k] += index * strides[k * ndim + d];
        rest = left;
    }
}

SDBR_INLINE int64_t sdbr_count(const int64_t *ints) {
    int64_t n = 1;
    for (int64_t d = 0; d < ints[0]; d++)
        n *= ints[1 + d];
    return n;
}

#endif
