/* What changes from run to run is written by one kernel, before those that read it. */
#ifndef SDBR_WORDS_CUH
#define SDBR_WORDS_CUH

#include "device/team.cuh"

/* As in backends/cuda/words.py; handed over by value, so that nobody has to keep it: 4,096 bytes at most. */
enum { SDBR_DEVICE_WORDS = 255 };

typedef struct sdbr_words {
    uint64_t *base;
    int64_t count;
    struct {
        uint64_t place, value;
    } words[SDBR_DEVICE_WORDS];
} sdbr_words;

#if defined(__CUDACC__)
extern "C" __global__ void sdbr_write_words(const __grid_constant__ sdbr_words words) {
    for (int64_t k = threadIdx.x; k < words.count; k += blockDim.x)
        words.base[words.words[k].place] = words.words[k].value;
}
#else
const int64_t sdbr_words_bytes = sizeof(sdbr_words);
void sdbr_write_words(const sdbr_words *words, int64_t size, int64_t groups);
void sdbr_write_words(const sdbr_words *words, int64_t size, int64_t groups) {
    (void)size, (void)groups;
    for (int64_t k = 0; k < words->count; k++)
        words->base[words->words[k].place] = words->words[k].value;
}
#endif

#endif
