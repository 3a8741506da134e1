/* Connectionist temporal classification. */
#include "math_f4.h"
#include "math_f8.h"
#include "label.h"
#include "ctc_path.h"

#define SDBR_BY_DTYPE "ctc.h"
#include "by_dtype.h"

#define SDBR_ENTRIES SDBR_ENTRY(ctc) SDBR_ENTRY(ctc_grad)
