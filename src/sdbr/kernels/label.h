/* Labels of any integer dtype. */
#ifndef SDBR_LABEL_H
#define SDBR_LABEL_H

#include "sdbr_template.h"

/* Codes of DTYPES in program.py. */
enum { SDBR_I1 = 4, SDBR_I2, SDBR_I4, SDBR_I8, SDBR_U1, SDBR_U2, SDBR_U4, SDBR_U8 };

SDBR_INLINE int64_t sdbr_label(const char *t, int64_t code, int64_t i) {
    switch (code) {
    case SDBR_I1:
        return ((const int8_t *)t)[i];
    case SDBR_I2:
        return ((const int16_t *)t)[i];
    case SDBR_I4:
        return ((const int32_t *)t)[i];
    case SDBR_U1:
        return ((const uint8_t *)t)[i];
    case SDBR_U2:
        return ((const uint16_t *)t)[i];
    case SDBR_U4:
        return ((const uint32_t *)t)[i];
    default: /* uint64 beyond int64 becomes negative, and is out of range there, too */
        return ((const int64_t *)t)[i];
    }
}

/* An index as NumPy takes it: negative ones count from the end. */
SDBR_INLINE int64_t sdbr_wrap(int64_t t, int64_t c) { return t < 0 ? t + c : t; }

/* SDBR_INDEX_ERROR, with the fault noted, unless every label is in [-c, c) or ignored. */
static int sdbr_check_labels(const sdbr_op *op, const char *t, int64_t code, int64_t n, int64_t c, int has_ignore,
                             int64_t ignore) {
    int64_t i = 0;
    for (; i < n; i++) {
        const int64_t v = sdbr_label(t, code, i);
        if ((v < -c || v >= c) && !(has_ignore && v == ignore))
            break;
    }
    if (i == n)
        return SDBR_OK;
    op->runtime->fault_value = sdbr_label(t, code, i);
    op->runtime->fault_bound = c;
    op->runtime->fault_position = i;
    return SDBR_INDEX_ERROR;
}

#endif
