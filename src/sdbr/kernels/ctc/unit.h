/* Connectionist temporal classification. */
#include "math/math_f4.h"
#include "math/math_f8.h"
#include "frame/label.h"
#include "ctc/path.h"

#define SDBR_BY_DTYPE "ctc/kernels.h"
#include "frame/by_dtype.h"

#define SDBR_ENTRIES SDBR_ENTRY(ctc) SDBR_ENTRY(ctc_grad)
