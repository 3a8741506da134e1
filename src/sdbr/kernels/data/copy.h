/* Copies of any dtype, by element size. */
#ifndef SDBR_COPY_H
#define SDBR_COPY_H

#include "frame/nd_loop.h"
#include "frame/short_row.h"
#include "product/setup.h"

typedef struct sdbr_16_bytes {
    uint64_t low, high;
} sdbr_16_bytes;

/* ints: [bytes]. */
static int copy_contiguous(const sdbr_op *op) {
    if (op->operands[0] != op->operands[1])
        memcpy(op->operands[1], op->operands[0], (size_t)op->ints[0]);
    return SDBR_OK;
}

/* Transposed matrices are copied tile by tile, so that both sides stay within a few cache lines:
 * y is contiguous along the columns, x along the rows. */
#define SDBR_COPY_TILE 16

/* Whole tiles in registers; 0 where that is not done for this size of elements. */
#define SDBR_NO_TILE(bytes) \
    SDBR_INLINE int copy_tile_##bytes(const char *x, int64_t x_step, char *y, int64_t y_step) { \
        return (void)x, (void)x_step, (void)y, (void)y_step, 0; \
    }
SDBR_NO_TILE(1)
SDBR_NO_TILE(2)
SDBR_NO_TILE(16)
#undef SDBR_NO_TILE

#define SDBR_BY_DTYPE "product/transpose.h"
#include "frame/by_dtype.h"

#define SDBR_TILE(T, dtype, bytes) \
    SDBR_INLINE int copy_tile_##bytes(const char *x, int64_t x_step, char *y, int64_t y_step) { \
        const int64_t lanes = (SDBR_GEMM_BYTES > 32 ? 32 : SDBR_GEMM_BYTES) / bytes; \
        for (int64_t i = 0; i < SDBR_COPY_TILE; i += lanes) \
            for (int64_t j = 0; j < SDBR_COPY_TILE; j += lanes) \
                transpose_##dtype((const T *)(x + i * bytes + j * x_step), x_step / bytes, (int)lanes, \
                                  (T *)(y + i * y_step + j * bytes), y_step / bytes); \
        return 1; \
    }
SDBR_TILE(float, f4, 4)
SDBR_TILE(double, f8, 8)
#undef SDBR_TILE

#define SDBR_COPY_KERNELS(TYPE, bytes) \
    /* Any steps, four at a time. */ \
    SDBR_INLINE void copy_steps_##bytes(const char *x, int64_t from, char *y, int64_t to, int64_t n) { \
        int64_t i = 0; \
        for (; i + 4 <= n; i += 4, x += 4 * from, y += 4 * to) { \
            const TYPE a = *(const TYPE *)x, b = *(const TYPE *)(x + from); \
            const TYPE c = *(const TYPE *)(x + 2 * from), d = *(const TYPE *)(x + 3 * from); \
            *(TYPE *)y = a; \
            *(TYPE *)(y + to) = b; \
            *(TYPE *)(y + 2 * to) = c; \
            *(TYPE *)(y + 3 * to) = d; \
        } \
        for (; i < n; i++, x += from, y += to) \
            *(TYPE *)y = *(const TYPE *)x; \
    } \
    static void copy_inner_##bytes(char *const *at, const int64_t *step, int64_t n, const double *floats) { \
        (void)floats; \
        const char *x = at[0]; \
        char *y = at[1]; \
        if (step[0] == bytes && step[1] == bytes) { \
            if (n * bytes > 256) { /* shorter rows do without the call */ \
                if (x != y) \
                    memcpy(y, x, (size_t)n * bytes); \
                return; \
            } \
            SDBR_IVDEP \
            for (int64_t i = 0; i < n; i++) \
                ((TYPE *)y)[i] = ((const TYPE *)x)[i]; \
        } else if (step[0] == 0 && step[1] == bytes) { \
            const TYPE v = *(const TYPE *)x; \
            for (int64_t i = 0; i < n; i++) \
                ((TYPE *)y)[i] = v; \
        } else if (step[0] == -bytes && step[1] == bytes) { \
            SDBR_IVDEP \
            for (int64_t i = 0; i < n; i++) \
                ((TYPE *)y)[i] = ((const TYPE *)x)[-i]; \
        } else if (step[0] == 2 * bytes && step[1] == bytes) { \
            SDBR_IVDEP \
            for (int64_t i = 0; i < n; i++) \
                ((TYPE *)y)[i] = ((const TYPE *)x)[2 * i]; \
        } else if (step[1] == bytes) { \
            copy_steps_##bytes(x, step[0], y, bytes, n); \
        } else { \
            copy_steps_##bytes(x, step[0], y, step[1], n); \
        } \
    } \
    /* Two rows to every other place of one. */ \
    SDBR_INLINE void copy_zipped_##bytes(const char *x, int64_t apart, char *y, int64_t n) { \
        const TYPE *a = (const TYPE *)x, *b = (const TYPE *)(x + apart); \
        TYPE *to = (TYPE *)y; \
        SDBR_IVDEP \
        for (int64_t i = 0; i < n; i++) { \
            to[2 * i] = a[i]; \
            to[2 * i + 1] = b[i]; \
        } \
    } \
    /* ints: as sdbr_nd_loop. The last two axes are one loop: rows are often short. */ \
    static int copy_strided_##bytes(const sdbr_op *op) { \
        const int64_t ndim = op->ints[0], *shape = op->ints + 1, *from = shape + ndim, *to = from + ndim; \
        if (ndim == 1) \
            return sdbr_nd_loop(op, 2, copy_inner_##bytes); \
        const int64_t n = shape[ndim - 1], rows = shape[ndim - 2], length = n * bytes; \
        const int64_t step[2] = {from[ndim - 1], to[ndim - 1]}, down[2] = {from[ndim - 2], to[ndim - 2]}; \
        const int is_short = step[0] == bytes && step[1] == bytes && SDBR_IS_SHORT(length); \
        const int zips = rows == 2 && step[0] == bytes && step[1] == 2 * bytes && down[1] == bytes; \
        int64_t index[SDBR_MAX_DIM] = {0}; \
        char *at[2] = {op->operands[0], op->operands[1]}; \
        for (int64_t d = 0; d < ndim; d++) \
            if (shape[d] == 0) \
                return SDBR_OK; \
        for (;;) { \
            if (zips) \
                copy_zipped_##bytes(at[0], down[0], at[1], n); \
            for (int64_t i = 0; i < rows && !zips; i++) { \
                char *const row[2] = {at[0] + i * down[0], at[1] + i * down[1]}; \
                if (is_short) \
                    sdbr_copy_short_row(row[0], row[1], length); \
                else \
                    copy_inner_##bytes(row, step, n, op->floats); \
            } \
            int64_t d = ndim - 3; \
            for (; d >= 0; d--) { \
                const int more = ++index[d] < shape[d]; \
                const int64_t move = more ? 1 : 1 - shape[d]; \
                at[0] += move * from[d]; \
                at[1] += move * to[d]; \
                if (more) \
                    break; \
                index[d] = 0; \
            } \
            if (d < 0) \
                return SDBR_OK; \
        } \
    } \
    static void copy_matrix_##bytes(const char *x, int64_t x_step, char *y, int64_t y_step, int64_t rows, \
                                    int64_t columns) { \
        for (int64_t i0 = 0; i0 < rows; i0 += SDBR_COPY_TILE) { \
            const int64_t i1 = rows - i0 < SDBR_COPY_TILE ? rows : i0 + SDBR_COPY_TILE; \
            for (int64_t j0 = 0; j0 < columns; j0 += SDBR_COPY_TILE) { \
                const int64_t j1 = columns - j0 < SDBR_COPY_TILE ? columns : j0 + SDBR_COPY_TILE; \
                if (i1 - i0 == SDBR_COPY_TILE && j1 - j0 == SDBR_COPY_TILE && \
                    copy_tile_##bytes(x + i0 * bytes + j0 * x_step, x_step, y + i0 * y_step + j0 * bytes, y_step)) \
                    continue; \
                for (int64_t i = i0; i < i1; i++) { \
                    const char *from = x + i * bytes; \
                    TYPE *to = (TYPE *)(y + i * y_step); \
                    for (int64_t j = j0; j < j1; j++) \
                        to[j] = *(const TYPE *)(from + j * x_step); \
                } \
            } \
        } \
    } \
    /* ints: [matrices, x step, y step between them, rows, columns, x step along j, y step along i]. */ \
    static int copy_transposed_##bytes(const sdbr_op *op) { \
        const int64_t *k = op->ints; \
        for (int64_t m = 0; m < k[0]; m++) \
            copy_matrix_##bytes(op->operands[0] + m * k[1], k[5], op->operands[1] + m * k[2], k[6], k[3], k[4]); \
        return SDBR_OK; \
    }

SDBR_COPY_KERNELS(uint8_t, 1)
SDBR_COPY_KERNELS(uint16_t, 2)
SDBR_COPY_KERNELS(uint32_t, 4)
SDBR_COPY_KERNELS(uint64_t, 8)
SDBR_COPY_KERNELS(sdbr_16_bytes, 16)

#define SDBR_COPY_ENTRY(bytes) \
    {"copy_strided_" #bytes, copy_strided_##bytes}, {"copy_transposed_" #bytes, copy_transposed_##bytes},

#define SDBR_COPY_ENTRIES \
    {"copy_contiguous", copy_contiguous}, SDBR_COPY_ENTRY(1) SDBR_COPY_ENTRY(2) SDBR_COPY_ENTRY(4) \
    SDBR_COPY_ENTRY(8) SDBR_COPY_ENTRY(16)

#undef SDBR_COPY_KERNELS
#undef SDBR_COPY_TILE

#endif
