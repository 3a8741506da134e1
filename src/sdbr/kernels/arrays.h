/* What unit_array.h has once per dtype. */
#include "scatter.h"
#include "scan.h"
#include "resize.h"
