/* Random numbers without a state: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as
 * 1, 2, 3", SC 2011). */
#ifndef SDBR_PHILOX_CUH
#define SDBR_PHILOX_CUH

#include "device/team.cuh"

typedef struct sdbr_philox {
    uint32_t of[4];
} sdbr_philox;

/* Four numbers for a counter and a key. */
SDBR_INLINE sdbr_philox sdbr_philox_of(sdbr_philox counter, uint64_t key) {
    uint32_t low = (uint32_t)key, high = (uint32_t)(key >> 32);
    sdbr_philox x = counter;
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * x.of[0], b = (uint64_t)0xCD9E8D57u * x.of[2];
        const sdbr_philox y = {{(uint32_t)(b >> 32) ^ x.of[1] ^ low, (uint32_t)b,
                                (uint32_t)(a >> 32) ^ x.of[3] ^ high, (uint32_t)a}};
        x = y;
        low += 0x9E3779B9u;
        high += 0xBB67AE85u;
    }
    return x;
}

/* What an op draws for elements 4 k to 4 k + 3: other numbers in each run, and for each op of a program. */
SDBR_INLINE sdbr_philox sdbr_draws_of(const sdbr_device_op *op, int64_t k) {
    const uint64_t *words = (const uint64_t *)op->work;
    const uint64_t run = words[1] << 28 | (uint64_t)k >> 32;
    const sdbr_philox counter = {{(uint32_t)k, (uint32_t)op->makes_draws, (uint32_t)run, (uint32_t)(run >> 32)}};
    return sdbr_philox_of(counter, words[0]);
}

/* In [0, 1), 24 bits. */
SDBR_INLINE double sdbr_unit(uint32_t x) { return (x >> 8) * (1.0 / 16777216); }

/* What an op draws for an element, whoever has drawn it. */
SDBR_INLINE double sdbr_drawn(const sdbr_device_op *op, int64_t i) {
    return op->makes_draws ? sdbr_unit(sdbr_draws_of(op, i >> 2).of[i & 3]) : op->work[i];
}

#endif
