/* What unit.h has once per dtype. */
#include "frame/vector.h"
#include "normalization/moments.h"
#include "normalization/batch_norm_planes.h"
#include "normalization/batch_norm_columns.h"
#include "normalization/batch_norm.h"
#include "normalization/group_norm.h"
#include "normalization/local_response.h"
#undef LANES
#undef SUM_BLOCK
#undef PIECE
#undef STRETCH
#undef COLUMNS
#undef COLUMN_ROWS
#undef GROUP_ROWS
#undef RESPONSE_WIDTH
#undef RESPONSE_ROOM
