/* Constants of the matrix products.
 *
 * Vectors are compiler extensions, so that one source serves every SIMD level. A product is cut
 * into tiles of rows x a few vectors whose sums stay in registers (tile.h); panel.h
 * drives them, products.h has the kernels. All matrices are row-major. */
#ifndef SDBR_GEMM_SETUP_H
#define SDBR_GEMM_SETUP_H

#include "runtime/workspace.h"

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

/* Multiply-adds from which packing a pays. */
#define SDBR_BLOCKED_WORK (1 << 21)
#define SDBR_PLAIN_ROWS 1024

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

#endif
