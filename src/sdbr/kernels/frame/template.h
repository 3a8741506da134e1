/* Helpers that every kernel header uses. A header "by dtype" is included twice (by_dtype.h), with
 *   T       float / double
 *   SUFFIX  f4 / f8
 *   INT     the integer of that width
 *   FN(x)   x_f4 / x_f8
 *   FABS, SQRT, COPYSIGN; SDBR_GEMM (member of sdbr_runtime); SDBR_FLOATS 1 / 0
 * and is compiled once per SIMD level; everything in it is static. */
#ifndef SDBR_TEMPLATE_H
#define SDBR_TEMPLATE_H

#include <stdint.h>
#include <string.h>
#if defined(__x86_64__) && !defined(__CUDACC__)
#include <immintrin.h>
#endif

#include "frame/abi.h"
#include "frame/sdbr_limits.h"

#define SDBR_CAT_(a, b) a##_##b
#define SDBR_CAT(a, b) SDBR_CAT_(a, b)
#define FN(name) SDBR_CAT(name, SUFFIX)
#define SDBR_STRING_(x) #x
#define SDBR_STRING(x) SDBR_STRING_(x)

/* Functions that kernels consist of, and what these have in tables: also of kernels for GPUs. */
#if defined(__CUDACC__)
#define SDBR_INLINE static __device__ __forceinline__
#define SDBR_HELPER static __device__
#define SDBR_TABLE static __device__ const
#else
#define SDBR_INLINE static inline __attribute__((always_inline, unused))
#define SDBR_HELPER static
#define SDBR_TABLE static const
#endif

/* Iterations are independent although an output may be the very array of an input: in-place
 * execution rules out `restrict`, but never carries a value from one iteration to another. */
#if defined(__clang__)
#define SDBR_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define SDBR_IVDEP _Pragma("GCC ivdep")
#else
#define SDBR_IVDEP
#endif

/* A loop that is not unrolled: one that walks through memory would go there and back, lane by lane. */
#if defined(__clang__)
#define SDBR_ROLLED _Pragma("clang loop unroll(disable)")
#elif defined(__GNUC__)
#define SDBR_ROLLED _Pragma("GCC unroll 1")
#else
#define SDBR_ROLLED
#endif

/* In a loop over any strides: vectors gathered element by element gain nothing there, and every
 * op would be compiled once more. */
#define SDBR_SCALAR_LOOP __asm__ __volatile__("")

/* Width of the vectors that sums and maxima are written in: their associativity is chosen by
 * hand, so no fast-math is needed. unit.c sets it. */
#ifndef SDBR_VECTOR_BYTES
#define SDBR_VECTOR_BYTES 16
#endif

/* Both dtypes of a kernel in the list SDBR_ENTRIES of a unit. */
#define SDBR_ENTRY(name) {#name "_f4", name##_f4}, {#name "_f8", name##_f8},

#endif
