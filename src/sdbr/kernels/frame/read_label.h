/* Reading labels of any integer dtype. */
#ifndef SDBR_READ_LABEL_H
#define SDBR_READ_LABEL_H

#include "frame/template.h"

/* Codes of DTYPES in base/dtypes.py. */
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

SDBR_INLINE int64_t sdbr_label_bytes(int64_t code) { return (int64_t)1 << ((code - SDBR_I1) & 3); }

#endif
