/* What unit.h has once per dtype. */
#include "math/arithmetic.h"
#include "recurrent/gates.h"
#include "recurrent/lstm.h"
#include "recurrent/slstm.h"
#include "recurrent/tree_lstm.h"
