/* The families that exist once per dtype. */
#include "elementwise.h"
#include "vector.h"
#include "reduction.h"
#include "row.h"
#undef LANES
#undef SUM_BLOCK
#undef ROW_BLOCK
#undef COLUMN_BLOCK
