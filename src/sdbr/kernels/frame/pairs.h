/* Sums of numbers that come one after another, in pairs of pairs, as a row is summed in halves: of so many
 * sums of blocks a chain would have seen more rounding than the blocks themselves. */
#ifndef SDBR_PAIRS_H
#define SDBR_PAIRS_H

#include "frame/template.h"

/* sums[k] is of 2^k numbers, where bit k of `count` is set. */
typedef struct sdbr_pairs {
    uint64_t count;
    double sums[64];
} sdbr_pairs;

SDBR_INLINE void sdbr_add_to_pairs(sdbr_pairs *p, double x) {
    int level = 0;
    for (uint64_t n = p->count++; n & 1; n >>= 1)
        x = p->sums[level++] + x;
    p->sums[level] = x;
}

SDBR_INLINE double sdbr_sum_of_pairs(const sdbr_pairs *p) {
    double sum = 0;
    int level = 0;
    for (uint64_t n = p->count; n; n >>= 1, ++level)
        if (n & 1)
            sum += p->sums[level];
    return sum;
}

#endif
