/* Denormals as zeros, operands and results alike: a mode of the processor, per thread. */
#ifndef SDBR_FLUSH_H
#define SDBR_FLUSH_H

#include <stdint.h>

#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
#define SDBR_CAN_FLUSH 1
/* FTZ is bit 15 and DAZ bit 6 of MXCSR. */
static inline uint64_t sdbr_flush_begin(void)
{
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040u);
    return before;
}
static inline void sdbr_flush_end(uint64_t before) { _mm_setcsr((unsigned)before); }
#elif defined(__aarch64__)
#define SDBR_CAN_FLUSH 1
/* FZ is bit 24 of FPCR. */
static inline uint64_t sdbr_flush_begin(void)
{
    uint64_t before;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(before));
    __asm__ __volatile__("msr fpcr, %0" : : "r"(before | (UINT64_C(1) << 24)));
    return before;
}
static inline void sdbr_flush_end(uint64_t before) { __asm__ __volatile__("msr fpcr, %0" : : "r"(before)); }
#else
#define SDBR_CAN_FLUSH 0
static inline uint64_t sdbr_flush_begin(void) { return 0; }
static inline void sdbr_flush_end(uint64_t before) { (void)before; }
#endif

#endif
