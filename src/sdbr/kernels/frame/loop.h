/* The loop of the executor and its timing. Included by the executor only. */
#ifndef SDBR_LOOP_H
#define SDBR_LOOP_H

#include "frame/abi.h"
#include "frame/sdbr_limits.h"
#include "frame/units.h"
#include "fused/steps.h"

#include <time.h>

/* Runs ops [begin, end); returns the index of the op that failed, or `end`. */
static inline int64_t sdbr_run_segment(const sdbr_op *ops, int64_t begin, int64_t end, int *status)
{
    const sdbr_op *op = ops + begin;
    const sdbr_op *last = ops + end;
    int result = SDBR_OK;
    for (; op < last; ++op) {
        result = op->kernel(op);
        if (__builtin_expect(result != SDBR_OK, 0))
            break;
    }
    *status = result;
    return op - ops;
}

static inline double sdbr_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What this thread has computed: other processes on its core do not count. */
static inline double sdbr_thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The same with the time of each op added to seconds[op]. */
static inline int64_t sdbr_run_timed(const sdbr_op *ops, int64_t begin, int64_t end, int *status, double *seconds)
{
    *status = SDBR_OK;
    for (int64_t i = begin; i < end; ++i) {
        double start = sdbr_seconds();
        *status = ops[i].kernel(&ops[i]);
        seconds[i] += sdbr_seconds() - start;
        if (*status != SDBR_OK)
            return i;
    }
    return end;
}

/* `n` calls of one kernel through the same pointers: what a loop without dispatch would cost. */
static inline double sdbr_time_kernel(const sdbr_op *op, int64_t n)
{
    sdbr_kernel kernel = op->kernel;
    double start = sdbr_seconds();
    for (int64_t i = 0; i < n; ++i)
        kernel(op);
    return sdbr_seconds() - start;
}

/* Copies what changed: operand pointers of the slots that moved. Returns the first slot whose memory is missing or
 * smaller than the program needs, or -1. */
static inline int64_t sdbr_sync_slots(char **operands, char **last, char *const *pointers, const int64_t *sizes,
                                      const int32_t *slots, const int64_t *needed, int64_t n_slots,
                                      const int64_t *patch_starts, const int32_t *patch_operands,
                                      const int64_t *patch_offsets)
{
    for (int64_t s = 0; s < n_slots; ++s) {
        char *pointer = pointers[slots[s]];
        /* Whoever was slower than another thread is stopped here: also where a smaller array lies in
         * the place of the one before. */
        if (sizes[slots[s]] < needed[s])
            return s;
        if (pointer == last[s])
            continue;
        for (int64_t k = patch_starts[s]; k < patch_starts[s + 1]; ++k)
            operands[patch_operands[k]] = pointer + patch_offsets[k];
        last[s] = pointer;
    }
    return -1;
}

/* Ended by NULL. */
#define SDBR_STEP_NAME(name, count) #name,
static const char *const sdbr_step_names[] = {SDBR_STEPS(SDBR_STEP_NAME) NULL};

/* The numbers of sdbr_limits.h by name; ended by NULL. */
typedef struct sdbr_limit {
    const char *name;
    int value;
} sdbr_limit;
#define SDBR_LIMIT_ENTRY(name, value) {#name, value},
static const sdbr_limit sdbr_limits[] = {SDBR_LIMITS(SDBR_LIMIT_ENTRY) {NULL, 0}};

/* --- SIMD levels ---------------------------------------------------------------------------- */

enum sdbr_level { SDBR_BASELINE, SDBR_AVX2, SDBR_AVX512 };

#define SDBR_DECLARE_UNIT(unit)                                                                      \
    extern const sdbr_registry_entry sdbr_registry_##unit##_baseline[];                              \
    extern const sdbr_registry_entry sdbr_registry_##unit##_avx2[];                                  \
    extern const sdbr_registry_entry sdbr_registry_##unit##_avx512[];
SDBR_UNITS(SDBR_DECLARE_UNIT)

#define SDBR_BASELINE_UNIT(unit) sdbr_registry_##unit##_baseline,
#define SDBR_AVX2_UNIT(unit) sdbr_registry_##unit##_avx2,
#define SDBR_AVX512_UNIT(unit) sdbr_registry_##unit##_avx512,

/* The units of a level, ended by NULL; NULL for a level that was not built. */
static inline const sdbr_registry_entry *const *sdbr_registries(int level)
{
    static const sdbr_registry_entry *const baseline[] = {SDBR_UNITS(SDBR_BASELINE_UNIT) NULL};
#ifdef SDBR_HAVE_AVX2
    static const sdbr_registry_entry *const avx2[] = {SDBR_UNITS(SDBR_AVX2_UNIT) NULL};
#endif
#ifdef SDBR_HAVE_AVX512
    static const sdbr_registry_entry *const avx512[] = {SDBR_UNITS(SDBR_AVX512_UNIT) NULL};
#endif
    switch (level) {
    case SDBR_BASELINE:
        return baseline;
#ifdef SDBR_HAVE_AVX2
    case SDBR_AVX2:
        return avx2;
#endif
#ifdef SDBR_HAVE_AVX512
    case SDBR_AVX512:
        return avx512;
#endif
    default:
        return NULL;
    }
}

/* Whether processor and operating system support a level that was built. */
static inline int sdbr_supports(int level)
{
    if (sdbr_registries(level) == NULL)
        return 0;
#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init();
    if (level == SDBR_AVX2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (level == SDBR_AVX512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("fma");
#endif
    return level == SDBR_BASELINE;
}

#ifdef __VERSION__
#define SDBR_COMPILER __VERSION__
#else
#define SDBR_COMPILER "unknown"
#endif
#ifndef SDBR_BUILD_FLAGS
#define SDBR_BUILD_FLAGS ""
#endif
#ifndef SDBR_BUILD_SIMD
#define SDBR_BUILD_SIMD "baseline"
#endif
#ifndef SDBR_CYTHON_VERSION
#define SDBR_CYTHON_VERSION ""
#endif

#endif
