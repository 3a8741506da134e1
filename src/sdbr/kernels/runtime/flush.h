/* Denormals as zeros: a mode of the processor, per thread. */
#ifndef SDBR_FLUSH_H
#define SDBR_FLUSH_H

#include <stdint.h>

/* What counts as zero. With results alone every comparison and every function of a denormal operand
 * is what it is without. */
enum sdbr_flush { SDBR_KEEP, SDBR_FLUSH_RESULTS, SDBR_FLUSH_ALL };

#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
/* FTZ (results) is bit 15 and DAZ (operands) bit 6 of MXCSR. */
static inline uint64_t sdbr_flush_begin(int what)
{
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | (what == SDBR_FLUSH_ALL ? 0x8040u : 0x8000u));
    return before;
}
static inline void sdbr_flush_end(uint64_t before) { _mm_setcsr((unsigned)before); }
#elif defined(__aarch64__)
/* FZ, bit 24 of FPCR, takes operands along. Denormals cost next to nothing on these processors, so
 * that results alone stay as they are. */
static inline uint64_t sdbr_flush_begin(int what)
{
    uint64_t before;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(before));
    if (what == SDBR_FLUSH_ALL)
        __asm__ __volatile__("msr fpcr, %0" : : "r"(before | (UINT64_C(1) << 24)));
    return before;
}
static inline void sdbr_flush_end(uint64_t before) { __asm__ __volatile__("msr fpcr, %0" : : "r"(before)); }
#else
static inline uint64_t sdbr_flush_begin(int what)
{
    (void)what;
    return 0;
}
static inline void sdbr_flush_end(uint64_t before) { (void)before; }
#endif

#endif
