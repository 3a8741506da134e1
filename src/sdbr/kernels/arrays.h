/* What unit_array.h has once per dtype. */
#include "scatter.h"
