/* Matrix products: own kernels for small sizes, BLAS for large ones. All matrices are row-major.
 *
 * Vectors are compiler extensions, so that one source serves every SIMD level. A product is cut
 * into tiles of rows x a few vectors whose sums stay in registers (gemm_tile.h); gemm_panel.h
 * drives them, blas_template.h has the kernels. */
#ifndef SDBR_KERNELS_BLAS_H
#define SDBR_KERNELS_BLAS_H

/* Bytes of a vector register: from the file of the level, else from the compiler's target. */
#if !defined(SDBR_GEMM_BYTES)
#if defined(__AVX512F__)
#define SDBR_GEMM_BYTES 64
#elif defined(__AVX__)
#define SDBR_GEMM_BYTES 32
#else
#define SDBR_GEMM_BYTES 16
#endif
#endif

/* Rows of a tile: rows x 2 sums, 2 vectors of b and one number of a must fit the registers. */
#if SDBR_GEMM_BYTES == 64 || defined(__aarch64__)
#define SDBR_GEMM_ROWS 8
#elif SDBR_GEMM_BYTES == 32
#define SDBR_GEMM_ROWS 6
#else
#define SDBR_GEMM_ROWS 4
#endif

/* Rows of b in a panel: with 2 vectors of 64 bytes that is 32 KiB, a first-level cache. */
#define SDBR_GEMM_DEPTH 256

enum { SDBR_NO_ACTIVATION, SDBR_RELU, SDBR_SIGMOID, SDBR_TANH };

#if defined(__clang__)
#define SDBR_UNROLL _Pragma("clang loop unroll(full)")
#else
#define SDBR_UNROLL _Pragma("GCC unroll 16")
#endif

#if defined(__clang__)
#define SDBR_SHUFFLE(a, b, index, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SDBR_SHUFFLE(a, b, index, ...) __builtin_shuffle(a, b, (index){__VA_ARGS__})
#endif

#define T float
#define SUFFIX f4
#define SDBR_FLOATS 1
#define INTEGER int32_t
#define SDBR_GEMM sgemm
#include "gemm_transpose.h"
#include "gemm_panel.h"
#include "gemv_template.h"
#include "blas_template.h"
#undef T
#undef SUFFIX
#undef INTEGER
#undef SDBR_FLOATS
#undef SDBR_GEMM

#define T double
#define SUFFIX f8
#define SDBR_FLOATS 0
#define INTEGER int64_t
#define SDBR_GEMM dgemm
#include "gemm_transpose.h"
#include "gemm_panel.h"
#include "gemv_template.h"
#include "blas_template.h"
#undef T
#undef SUFFIX
#undef INTEGER
#undef SDBR_FLOATS
#undef SDBR_GEMM

#define SDBR_BLAS_ENTRY(name) {#name "_f4", name##_f4}, {#name "_f8", name##_f8},
#define SDBR_BLAS_ENTRIES                                                                            \
    SDBR_BLAS_ENTRY(linear) SDBR_BLAS_ENTRY(linear_row) SDBR_BLAS_ENTRY(linear_blas)                 \
    SDBR_BLAS_ENTRY(gemm) SDBR_BLAS_ENTRY(gemm_row) SDBR_BLAS_ENTRY(gemm_outer)                      \
    SDBR_BLAS_ENTRY(gemm_blas) SDBR_BLAS_ENTRY(batch_matmul) SDBR_BLAS_ENTRY(batch_matmul_blas)      \
    SDBR_BLAS_ENTRY(gemm_mask) SDBR_BLAS_ENTRY(gemm_mask_row) SDBR_BLAS_ENTRY(gemm_mask_blas)

#endif
