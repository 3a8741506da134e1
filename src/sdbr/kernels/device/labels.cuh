/* Labels that are out of range are noted, and something else is used. */
#ifndef SDBR_DEVICE_LABELS_CUH
#define SDBR_DEVICE_LABELS_CUH

#include "device/team.cuh"

#include "frame/read_label.h"

/* A label as an index below c; one out of range is noted, and is 0. */
SDBR_INLINE int64_t sdbr_index_of(const sdbr_device_op *op, int64_t label, int64_t c, int64_t position) {
    if (label >= -c && label < c)
        return sdbr_wrap(label, c);
    sdbr_note_fault(op, label, c, position);
    return 0;
}

#endif
