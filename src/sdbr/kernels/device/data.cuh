/* Elements moved, of any dtype: copies, casts, fills; taken from places, put there, chosen by a condition. */
#ifndef SDBR_DEVICE_DATA_CUH
#define SDBR_DEVICE_DATA_CUH

#include "device/places.cuh"
#include "data/types.h"

typedef struct sdbr_16 {
    uint64_t half[2];
} sdbr_16;
#define SDBR_OF_1 uint8_t
#define SDBR_OF_2 uint16_t
#define SDBR_OF_4 uint32_t
#define SDBR_OF_8 uint64_t
#define SDBR_OF_16 sdbr_16

/* Runs `done` with the places `at` of each element; ints: [ndim, shape, strides of each operand in bytes]. */
#define SDBR_EACH_PLACE(name, count, ...) \
    SDBR_INLINE void name##_team(sdbr_team team, const sdbr_device_op *op) { \
        const int64_t n = sdbr_count(op->ints); \
        char *operands[count], *at[count]; \
        for (int k = 0; k < (count); k++) \
            operands[k] = sdbr_at(op, k); \
        for (int64_t i = sdbr_first(team); i < n; i += sdbr_stride(team)) { \
            sdbr_place_strided(op->ints, count, i, operands, at, 0); \
            __VA_ARGS__; \
        } \
    } \
    SDBR_KERNEL(name, name##_team)

#define SDBR_COPY(bytes) \
    SDBR_EACH_PLACE(copy_##bytes, 2, *(SDBR_OF_##bytes *)at[1] = *(const SDBR_OF_##bytes *)at[0])
/* Any number of copies. operands[0] and operands[1] are lists: from and to of each, and integers: [copies, pieces], where
 * the integers of each copy stand in this list, which copy each piece is of, and where in it it begins; then those. A piece
 * has SDBR_PIECE elements at most. */
#define SDBR_COPY_TOGETHER(bytes) \
    SDBR_INLINE void copy_together_##bytes##_team(sdbr_team team, const sdbr_device_op *op) { \
        const int64_t *ints = (const int64_t *)op->operands[1]; \
        for (int64_t piece = team.group; piece < ints[1]; piece += team.groups) { \
            const int64_t *whose = ints + 2 + ints[0] + piece, k = *whose, begin = whose[ints[1]]; \
            const int64_t *places = ints + ints[2 + k], n = sdbr_count(places); \
            const int64_t end = n - begin < SDBR_PIECE ? n : begin + SDBR_PIECE; \
            char *const *lists = (char *const *)op->operands[0] + 2 * k, *const of[2] = {lists[0], lists[1]}; \
            for (int64_t i = begin + team.rank; i < end; i += team.size) { \
                char *at[2]; \
                sdbr_place_strided(places, 2, i, of, at, 0); \
                *(SDBR_OF_##bytes *)at[1] = *(const SDBR_OF_##bytes *)at[0]; \
            } \
        } \
    } \
    SDBR_KERNEL(copy_together_##bytes, copy_together_##bytes##_team)
#define SDBR_CAST(a, b) \
    SDBR_EACH_PLACE(cast_##a##_##b, 2, *(TYPE_##b *)at[1] = STORE_##b(LOAD_##a(*(const TYPE_##a *)at[0])))
#define SDBR_FILL(b) SDBR_EACH_PLACE(fill_##b, 1, *(TYPE_##b *)at[0] = STORE_##b(op->floats[0]))
#define SDBR_ZERO(bytes) \
    SDBR_EACH_PLACE(zero_##bytes, 1, { \
        const SDBR_OF_##bytes nothing = {0}; \
        *(SDBR_OF_##bytes *)at[0] = nothing; \
    })
#define SDBR_WHERE(bytes) \
    SDBR_EACH_PLACE(where_##bytes, 4, \
                    *(SDBR_OF_##bytes *)at[3] = *(const SDBR_OF_##bytes *)(*at[0] ? at[1] : at[2]))

/* --- by index: ints as in array/index.h, [outer, m, inner, k, has_ignore, ignore_label, step along outer, step along
 *     inner, then for each of the k indices: n, step, dtype] ---------------------------------------------------------- */
enum { SDBR_PLACES_HEAD = 8 };
#define SDBR_NOWHERE (-INT64_MAX)

/* Bytes from the first element of the indexed side to that of element i of [outer, m, inner]; nowhere: ignored, or
 * not there. Indices are the operands from 1 on. */
SDBR_INLINE int64_t sdbr_place_of(const sdbr_device_op *op, int64_t i) {
    const int64_t *n = op->ints, m = n[1], inner = n[2], j = i / inner % m;
    int64_t at = i / (m * inner) * n[6] + i % inner * n[7];
    for (int64_t k = 0; k < n[3]; k++) {
        const int64_t *axis = n + SDBR_PLACES_HEAD + 3 * k;
        const int64_t label = sdbr_label(sdbr_at(op, (int)(1 + k)), axis[2], j);
        if (n[4] && label == n[5])
            return SDBR_NOWHERE;
        if (axis[0] == 0) {
            sdbr_note_fault(op, label, 0, j);
            return SDBR_NOWHERE;
        }
        at += sdbr_index_of(op, label, axis[0], j) * axis[1];
    }
    return at;
}

#define SDBR_EACH_INDEXED(name, ...) \
    SDBR_INLINE void name##_team(sdbr_team team, const sdbr_device_op *op) { \
        const int64_t n = op->ints[0] * op->ints[1] * op->ints[2]; \
        char *first = sdbr_at(op, 0), *last = sdbr_at(op, (int)(1 + op->ints[3])); \
        for (int64_t i = sdbr_first(team); i < n; i += sdbr_stride(team)) { \
            const int64_t at = sdbr_place_of(op, i); \
            __VA_ARGS__; \
        } \
    } \
    SDBR_KERNEL(name, name##_team)

/* operands: x, t..., y. */
#define SDBR_TAKE(bytes) \
    SDBR_EACH_INDEXED(take_##bytes, { \
        const SDBR_OF_##bytes nothing = 0; \
        ((SDBR_OF_##bytes *)last)[i] = at == SDBR_NOWHERE ? nothing : *(const SDBR_OF_##bytes *)(first + at); \
    })
/* operands: x (the rows), t..., y. Where places are the same, any of the rows is put there. */
#define SDBR_PUT(bytes) \
    SDBR_EACH_INDEXED(put_##bytes, { \
        if (at != SDBR_NOWHERE) \
            *(SDBR_OF_##bytes *)(last + at) = ((const SDBR_OF_##bytes *)first)[i]; \
    })
/* operands: gy, t..., gx. In any order. */
#define SDBR_SCATTER(a) \
    SDBR_EACH_INDEXED(scatter_add_##a, { \
        if (at != SDBR_NOWHERE) \
            SDBR_ADD((TYPE_##a *)(last + at), ((const TYPE_##a *)first)[i]); \
    })

#endif
