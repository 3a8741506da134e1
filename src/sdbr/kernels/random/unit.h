/* Random draws. */
#include "frame/template.h"

#define SDBR_BY_DTYPE "random/kernels.h"
#include "frame/by_dtype.h"

#define SDBR_ENTRIES SDBR_ENTRY(dropout) SDBR_ENTRY(keep_mask) SDBR_ENTRY(uniform)
