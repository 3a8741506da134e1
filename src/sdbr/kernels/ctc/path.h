/* The labels of a sample with a blank before, between and behind them: its path. */
#ifndef SDBR_CTC_PATH_H
#define SDBR_CTC_PATH_H

#include "frame/template.h"

/* The label at place k; as it was given, negative ones count from the end. */
SDBR_INLINE int64_t sdbr_path_label(const int32_t *t, int64_t blank, int64_t k) {
    return k & 1 ? t[k >> 1] : blank;
}

/* Position i of [0, n) when the first `length` come in reverse and then the others, the last of them
 * first; `turn` is sdbr_path_turn(n, length). */
SDBR_INLINE int64_t sdbr_path_reverse(int64_t i, int64_t n, int64_t turn) {
    const int64_t at = n - 1 - i + turn;
    return at < n ? at : at - n;
}

SDBR_INLINE int64_t sdbr_path_turn(int64_t n, int64_t length) {
    const int64_t turn = length % n;
    return turn < 0 ? turn + n : turn;
}

#endif
