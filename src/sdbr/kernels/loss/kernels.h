/* What unit.h has once per dtype. */
#include "math/arithmetic.h"
#include "frame/vector.h"
#include "reduction/groups.h"
#include "loss/labels.h"
#include "loss/sigmoid.h"
#include "loss/elements.h"
#undef LANES
#undef SUM_BLOCK
#undef ROW_BLOCK
#undef COLUMN_BLOCK
#undef FOR_LENGTH
