/* Copies of rows that are too short for a call of memcpy. */
#ifndef SDBR_SHORT_ROW_H
#define SDBR_SHORT_ROW_H

#include "frame/template.h"

#define SDBR_IS_SHORT(length) ((length) >= 16 && (length) <= 256)

/* The last 16 bytes begin in those before them, so nothing is left over. */
SDBR_INLINE void sdbr_copy_short_row(const char *x, char *y, int64_t length) {
    int64_t i = 0;
    for (; i + 16 < length; i += 16)
        memcpy(y + i, x + i, 16);
    memcpy(y + length - 16, x + length - 16, 16);
}

#endif
