/* Kernels for x86-64 machines with AVX512. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "sdbr_abi.h"

#if defined(SDBR_HAVE_AVX512)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma,prefer-vector-width=512")
#endif

#define SDBR_VECTOR_BYTES 64
#define SDBR_REGISTRY sdbr_registry_avx512
#define SDBR_GEMM_BYTES 64
#include "sdbr_level.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#else

const sdbr_registry_entry sdbr_registry_avx512[] = {{NULL, NULL}};

#endif
