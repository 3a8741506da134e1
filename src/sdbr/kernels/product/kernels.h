/* What unit.h has once per dtype. */
#include "math/arithmetic.h"
#include "product/transpose.h"
#include "product/panel.h"
#include "product/gemv.h"
#include "product/small.h"
#include "product/products.h"
