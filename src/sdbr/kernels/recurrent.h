/* What unit_recurrent.h has once per dtype. */
#include "arithmetic.h"
#include "lstm.h"
#include "slstm.h"
#include "tree_lstm.h"
