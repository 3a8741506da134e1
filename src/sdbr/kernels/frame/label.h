/* Checks and copies of labels of any integer dtype. */
#ifndef SDBR_LABEL_H
#define SDBR_LABEL_H

#include "frame/read_label.h"
#include "runtime/workspace.h"

/* Whether a label is neither from `low` to `high` nor ignored; the bounds are brought to what the
 * dtype has. Without a way out, so that it is done by vectors: as good as always nothing is wrong. */
#define SDBR_SOME_WRONG(TYPE, least, most) \
    { \
        const TYPE *label = (const TYPE *)t; \
        const TYPE from = (TYPE)(low > (least) ? low : (least)), to = (TYPE)(high < (most) ? high : (most)); \
        const TYPE other = (TYPE)ignore; \
        const TYPE leave = (TYPE)(has_ignore && ignore >= (least) && ignore <= (most)); \
        TYPE wrong = 0; \
        for (int64_t i = 0; i < n; i++) \
            wrong |= (TYPE)((label[i] < from) | (label[i] > to)) & (TYPE) !(leave & (label[i] == other)); \
        return wrong != 0; \
    }

static int sdbr_some_wrong(const char *t, int64_t code, int64_t n, int64_t low, int64_t high, int has_ignore,
                           int64_t ignore) {
    switch (code) {
    case SDBR_I1:
        SDBR_SOME_WRONG(int8_t, INT8_MIN, INT8_MAX)
    case SDBR_I2:
        SDBR_SOME_WRONG(int16_t, INT16_MIN, INT16_MAX)
    case SDBR_I4:
        SDBR_SOME_WRONG(int32_t, INT32_MIN, INT32_MAX)
    case SDBR_U1:
        SDBR_SOME_WRONG(uint8_t, 0, UINT8_MAX)
    case SDBR_U2:
        SDBR_SOME_WRONG(uint16_t, 0, UINT16_MAX)
    case SDBR_U4:
        SDBR_SOME_WRONG(uint32_t, 0, (int64_t)UINT32_MAX)
    default:
        SDBR_SOME_WRONG(int64_t, INT64_MIN, INT64_MAX)
    }
}

#undef SDBR_SOME_WRONG

/* SDBR_INDEX_ERROR, with the fault noted, unless every label is in [-c, c) or ignored. */
static int sdbr_check_labels(const sdbr_op *op, const char *t, int64_t code, int64_t n, int64_t c, int has_ignore,
                             int64_t ignore) {
    if (c == 0 ? n == 0 : !sdbr_some_wrong(t, code, n, -c, c - 1, has_ignore, ignore))
        return SDBR_OK;
    for (int64_t i = 0; i < n; i++) {
        const int64_t v = sdbr_label(t, code, i);
        if (v >= -c && v < c)
            continue;
        if (has_ignore && v == ignore)
            continue;
        op->runtime->fault_value = v;
        op->runtime->fault_bound = c;
        op->runtime->fault_position = i;
        return SDBR_INDEX_ERROR;
    }
    return SDBR_OK;
}

/* Copies labels to `copy`, where no other thread changes them between a check and what follows it;
 * `*t` becomes the copy. The barrier keeps the compiler from reading the original again. */
SDBR_INLINE void sdbr_copy_labels(char **t, char *copy, int64_t code, int64_t n) {
    memcpy(copy, *t, (size_t)(n * sdbr_label_bytes(code)));
    __asm__ __volatile__("" : : "r"(copy) : "memory");
    *t = copy;
}

/* The same to scratch memory of this thread, and sdbr_check_labels of the copy. It is valid until
 * the thread asks for scratch memory again. */
static __attribute__((unused)) int sdbr_own_labels(const sdbr_op *op, char **t, int64_t code, int64_t n, int64_t c,
                                                   int has_ignore, int64_t ignore) {
    if (n == 0)
        return SDBR_OK;
    char *copy = (char *)sdbr_workspace((size_t)(n * sdbr_label_bytes(code)));
    if (copy == NULL)
        return SDBR_NO_MEMORY;
    sdbr_copy_labels(t, copy, code, n);
    return sdbr_check_labels(op, copy, code, n, c, has_ignore, ignore);
}

#endif
