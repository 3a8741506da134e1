/* Copies, casts and fills. */
#include "data/cast_names.h"
#include "data/copy.h"

#define SDBR_ENTRIES SDBR_COPY_ENTRIES SDBR_CAST_ENTRIES
