/* Rows of elements taken from places, put into places and chosen by a condition, by element size.
 *
 * ints: [outer, m, inner, k, has_ignore, ignore_label, step along outer, step along inner,
 *        then for each of the k indices: n, step, dtype]; the steps are those of the side that is
 * indexed (`x`), in bytes. The other side, `rows`, is C-contiguous [outer, m, inner].
 * Every index is checked before anything is written; what is checked are copies (frame/label.h). */
#ifndef SDBR_INDEX_H
#define SDBR_INDEX_H

#include "frame/label.h"
#include "frame/nd_loop.h"
#include "frame/short_row.h"

/* So many places are worked out at a time. */
#define SDBR_PLACES 512
#define SDBR_IGNORED INT64_MIN
#define SDBR_INDEX_HEAD 8

/* Copies of the indices in `own`, all of them checked. */
static int sdbr_own_places(const sdbr_op *op, char *const *t, char **own) {
    const int64_t m = op->ints[1], k = op->ints[3], *axes = op->ints + SDBR_INDEX_HEAD;
    int64_t size = 0;
    for (int64_t i = 0; i < k; i++)
        size += m * sdbr_label_bytes(axes[3 * i + 2]);
    if (size == 0)
        return SDBR_OK;
    char *copy = (char *)sdbr_workspace((size_t)size);
    if (copy == NULL)
        return SDBR_NO_MEMORY;
    /* The widest come first where they lie: each is as aligned as its elements are wide. */
    for (int64_t bytes = 8; bytes > 0; bytes /= 2)
        for (int64_t i = 0; i < k; i++) {
            if (sdbr_label_bytes(axes[3 * i + 2]) != bytes)
                continue;
            own[i] = t[i];
            sdbr_copy_labels(&own[i], copy, axes[3 * i + 2], m);
            copy += m * bytes;
        }
    for (int64_t i = 0; i < k; i++) {
        const int64_t *axis = axes + 3 * i;
        const int status = sdbr_check_labels(op, own[i], axis[2], m, axis[0], op->ints[4] != 0, op->ints[5]);
        if (status != SDBR_OK)
            return status;
    }
    return SDBR_OK;
}

#define SDBR_ADD_PLACES(TYPE) \
    for (int64_t j = 0; j < count; j++) \
        at[j] += sdbr_wrap((int64_t)((const TYPE *)t)[j], n) * step;

/* Adds the bytes of `count` indices to `at`. */
static void sdbr_add_places(const char *t, int64_t code, int64_t count, int64_t n, int64_t step, int64_t *at) {
    switch (code) {
    case SDBR_I4:
        SDBR_ADD_PLACES(int32_t)
        break;
    case SDBR_I8:
        SDBR_ADD_PLACES(int64_t)
        break;
    default:
        for (int64_t j = 0; j < count; j++)
            at[j] += sdbr_wrap(sdbr_label(t, code, j), n) * step;
    }
}

#undef SDBR_ADD_PLACES

#define SDBR_IGNORE_PLACES(TYPE) \
    for (int64_t j = 0; j < count; j++) \
        at[j] = (int64_t)((const TYPE *)t)[first + j] == ignore ? SDBR_IGNORED : at[j];

/* Marks the places of the indices from `first` on that are `ignore`. */
static void sdbr_ignore_places(const char *t, int64_t code, int64_t first, int64_t count, int64_t ignore,
                               int64_t *at) {
    switch (code) {
    case SDBR_I4:
        SDBR_IGNORE_PLACES(int32_t)
        break;
    case SDBR_I8:
        SDBR_IGNORE_PLACES(int64_t)
        break;
    default:
        for (int64_t j = 0; j < count; j++)
            if (sdbr_label(t, code, first + j) == ignore)
                at[j] = SDBR_IGNORED;
    }
}

#undef SDBR_IGNORE_PLACES

/* Bytes from the start of a row of `x`, for `count` places from `first` on. */
static void sdbr_places(const sdbr_op *op, char *const *t, int64_t first, int64_t count, int64_t *at) {
    const int64_t k = op->ints[3], *axes = op->ints + SDBR_INDEX_HEAD;
    for (int64_t j = 0; j < count; j++)
        at[j] = 0;
    for (int64_t i = 0; i < k; i++, axes += 3)
        sdbr_add_places(t[i] + first * sdbr_label_bytes(axes[2]), axes[2], count, axes[0], axes[1], at);
    if (op->ints[4])
        sdbr_ignore_places(t[0], op->ints[SDBR_INDEX_HEAD + 2], first, count, op->ints[5], at);
}

/* The beginnings of runs of places that lie `bytes` after one another, and `count`; how many there are. */
SDBR_INLINE int64_t sdbr_runs(const int64_t *at, int64_t count, int64_t bytes, int64_t *begins) {
    int64_t n = 1;
    begins[0] = 0;
    for (int64_t j = 1; j < count; j++) {
        begins[n] = j;
        n += at[j] != at[j - 1] + bytes;
    }
    begins[n] = count;
    return n;
}

#define SDBR_TAKEN 0
#define SDBR_PUT 1

#define SDBR_INDEX_KERNELS(TYPE, bytes) \
    SDBR_INLINE void move_row_##bytes(char *x, int64_t step, TYPE *row, int64_t n, int way) { \
        if (step == bytes && n * bytes > 256) { \
            if (way == SDBR_TAKEN) \
                memcpy(row, x, (size_t)n * bytes); \
            else \
                memcpy(x, row, (size_t)n * bytes); \
            return; \
        } \
        if (step == bytes && SDBR_IS_SHORT(n * bytes)) { \
            if (way == SDBR_TAKEN) \
                sdbr_copy_short_row(x, (char *)row, n * bytes); \
            else \
                sdbr_copy_short_row((const char *)row, x, n * bytes); \
            return; \
        } \
        for (int64_t i = 0; i < n; i++) { \
            TYPE *place = (TYPE *)(x + i * step); \
            if (way == SDBR_TAKEN) \
                row[i] = *place; \
            else \
                *place = row[i]; \
        } \
    } \
    /* Rows of one element each. */ \
    SDBR_INLINE void move_elements_##bytes(char *x, const int64_t *at, TYPE *rows, int64_t n, int way) { \
        if (way == SDBR_TAKEN) \
            for (int64_t j = 0; j < n; j++) \
                rows[j] = at[j] == SDBR_IGNORED ? 0 : *(const TYPE *)(x + at[j]); \
        else \
            for (int64_t j = 0; j < n; j++) \
                if (at[j] != SDBR_IGNORED) \
                    *(TYPE *)(x + at[j]) = rows[j]; \
    } \
    SDBR_INLINE int move_rows_##bytes(const sdbr_op *op, char *x, TYPE *rows, int way) { \
        const int64_t outer = op->ints[0], m = op->ints[1], inner = op->ints[2]; \
        char *t[SDBR_MAX_DIM]; \
        int64_t at[SDBR_PLACES]; \
        const int status = sdbr_own_places(op, op->operands + 1, t); \
        if (status != SDBR_OK) \
            return status; \
        for (int64_t first = 0; first < m; first += SDBR_PLACES) { \
            const int64_t count = m - first < SDBR_PLACES ? m - first : SDBR_PLACES; \
            sdbr_places(op, t, first, count, at); \
            for (int64_t o = 0; o < outer; o++) { \
                if (inner == 1) { \
                    move_elements_##bytes(x + o * op->ints[6], at, rows + o * m + first, count, way); \
                    continue; \
                } \
                for (int64_t j = 0; j < count; j++) { \
                    TYPE *row = rows + (o * m + first + j) * inner; \
                    if (at[j] != SDBR_IGNORED) \
                        move_row_##bytes(x + o * op->ints[6] + at[j], op->ints[7], row, inner, way); \
                    else if (way == SDBR_TAKEN) \
                        memset(row, 0, (size_t)inner * bytes); \
                } \
            } \
        } \
        return SDBR_OK; \
    } \
    /* operands: x, t..., y. */ \
    static int take_##bytes(const sdbr_op *op) { \
        return move_rows_##bytes(op, op->operands[0], (TYPE *)op->operands[1 + op->ints[3]], SDBR_TAKEN); \
    } \
    /* operands: x (the rows), t..., y. */ \
    static int put_##bytes(const sdbr_op *op) { \
        return move_rows_##bytes(op, op->operands[1 + op->ints[3]], (TYPE *)op->operands[0], SDBR_PUT); \
    } \
    static void where_inner_##bytes(char *const *at, const int64_t *step, int64_t n, const double *floats) { \
        (void)floats; \
        const char *c = at[0], *x = at[1], *y = at[2]; \
        char *z = at[3]; \
        if (step[0] == 1 && step[1] == bytes && step[2] == bytes && step[3] == bytes) { \
            SDBR_IVDEP \
            for (int64_t i = 0; i < n; i++) \
                ((TYPE *)z)[i] = c[i] ? ((const TYPE *)x)[i] : ((const TYPE *)y)[i]; \
        } else { \
            for (int64_t i = 0; i < n; i++) \
                *(TYPE *)(z + i * step[3]) = c[i * step[0]] ? *(const TYPE *)(x + i * step[1]) \
                                                            : *(const TYPE *)(y + i * step[2]); \
        } \
    } \
    static int where_##bytes(const sdbr_op *op) { return sdbr_nd_loop(op, 4, where_inner_##bytes); }

SDBR_INDEX_KERNELS(uint8_t, 1)
SDBR_INDEX_KERNELS(uint16_t, 2)
SDBR_INDEX_KERNELS(uint32_t, 4)
SDBR_INDEX_KERNELS(uint64_t, 8)

#define SDBR_INDEX_ENTRY(bytes) {"take_" #bytes, take_##bytes}, {"put_" #bytes, put_##bytes}, {"where_" #bytes, where_##bytes},
#define SDBR_INDEX_ENTRIES SDBR_INDEX_ENTRY(1) SDBR_INDEX_ENTRY(2) SDBR_INDEX_ENTRY(4) SDBR_INDEX_ENTRY(8)

#undef SDBR_INDEX_KERNELS

#endif
