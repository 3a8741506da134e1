/* What unit.h has once per dtype. */
#include "math/arithmetic.h"
#include "frame/vector.h"
#include "reduction/groups.h"
#include "reduction/reduction.h"
#include "reduction/softmax.h"
#undef LANES
#undef SUM_BLOCK
#undef ROW_BLOCK
#undef COLUMN_BLOCK
#undef FOR_LENGTH
