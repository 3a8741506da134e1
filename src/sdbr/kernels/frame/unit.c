/* One unit of kernels at one SIMD level. setup.py compiles this file for every unit of units.h and
 * every level, with
 *   SDBR_UNIT              name of the unit, a family of ops: its kernels are in <name>/unit.h
 *   SDBR_LEVEL             baseline, avx2 or avx512
 *   SDBR_LEVEL_<LEVEL>     1 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h> /* before the target changes: what it defines has targets of its own */
#endif

#include "frame/abi.h"

#if defined(SDBR_LEVEL_AVX512)
#define SDBR_VECTOR_BYTES 64
#define SDBR_GEMM_BYTES 64
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma,prefer-vector-width=512")
#endif
#elif defined(SDBR_LEVEL_AVX2)
#define SDBR_VECTOR_BYTES 32
#define SDBR_GEMM_BYTES 32
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#endif

#include "frame/template.h"

#define SDBR_UNIT_HEADER_(name) SDBR_STRING(name/unit.h)
#define SDBR_UNIT_HEADER(name) SDBR_UNIT_HEADER_(name)
#include SDBR_UNIT_HEADER(SDBR_UNIT)

#define SDBR_REGISTRY_(unit, level) sdbr_registry_##unit##_##level
#define SDBR_REGISTRY(unit, level) SDBR_REGISTRY_(unit, level)
const sdbr_registry_entry SDBR_REGISTRY(SDBR_UNIT, SDBR_LEVEL)[] = {SDBR_ENTRIES{NULL, NULL}};

#if defined(__clang__) && (defined(SDBR_LEVEL_AVX512) || defined(SDBR_LEVEL_AVX2))
#pragma clang attribute pop
#endif
