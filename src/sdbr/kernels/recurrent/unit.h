/* Cells of recurrent networks. */
#include "math/power_f4.h"
#include "math/math_f8.h"

#define SDBR_BY_DTYPE "recurrent/kernels.h"
#include "frame/by_dtype.h"

#define SDBR_ENTRIES \
    SDBR_ENTRY(lstm) \
    SDBR_ENTRY(lstm_grad) \
    SDBR_ENTRY(slstm) \
    SDBR_ENTRY(slstm_grad) \
    SDBR_ENTRY(tree_lstm) \
    SDBR_ENTRY(tree_lstm_grad)
