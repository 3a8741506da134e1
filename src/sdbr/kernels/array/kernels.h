/* What unit.h has once per dtype. */
#include "array/scatter.h"
#include "array/scan.h"
#include "array/resize.h"
