/* Which kernels were built: their names and addresses by SIMD level, numbers, steps, how they were compiled. */
#ifndef SDBR_REGISTRY_H
#define SDBR_REGISTRY_H

#include "frame/abi.h"
#include "frame/sdbr_limits.h"
#include "frame/units.h"
#include "fused/steps.h"

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
