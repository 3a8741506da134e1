/* Elements chosen by indices or a condition, sums along an axis, images of another size. */
#include "index.h"

#define SDBR_BY_DTYPE "arrays.h"
#include "by_dtype.h"

#define SDBR_ENTRIES \
    SDBR_INDEX_ENTRIES \
    SDBR_ENTRY(scatter_add)
