/* Kernels for any machine. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "sdbr_abi.h"

#define SDBR_REGISTRY sdbr_registry_baseline
#include "sdbr_level.h"
