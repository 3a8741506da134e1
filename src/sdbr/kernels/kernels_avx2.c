/* Kernels for x86-64 machines with AVX2. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "sdbr_abi.h"

#if defined(SDBR_HAVE_AVX2)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif

#define SDBR_VECTOR_BYTES 32
#define SDBR_REGISTRY sdbr_registry_avx2
#define SDBR_GEMM_BYTES 32
#include "sdbr_level.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#else

const sdbr_registry_entry sdbr_registry_avx2[] = {{NULL, NULL}};

#endif
