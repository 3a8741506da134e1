/* What unit_normalization.h has once per dtype. */
#include "vector.h"
#include "moments.h"
#include "batch_norm_planes.h"
#include "batch_norm_columns.h"
#include "batch_norm.h"
#include "group_norm.h"
#include "local_response.h"
#undef LANES
#undef SUM_BLOCK
#undef PIECE
#undef COLUMNS
#undef COLUMN_ROWS
#undef GROUP_ROWS
#undef RESPONSE_WIDTH
#undef RESPONSE_ROOM
