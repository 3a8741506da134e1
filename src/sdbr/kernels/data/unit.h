/* Copies, casts and fills. */
#include "data/cast_names.h"
#include "data/copy.h"
#include "data/half_casts.h"

#define SDBR_ENTRIES SDBR_COPY_ENTRIES SDBR_CAST_ENTRIES
