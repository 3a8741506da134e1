/* What unit_rows.h has once per dtype. */
#include "arithmetic.h"
#include "vector.h"
#include "reduction.h"
#include "row.h"
#include "loss.h"
#include "loss_elements.h"
#include "random.h"
#undef LANES
#undef SUM_BLOCK
#undef ROW_BLOCK
#undef COLUMN_BLOCK
#undef FOR_LENGTH
