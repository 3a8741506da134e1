/* What unit_conv.h has once per dtype. */
#include "gemm_transpose.h"
#include "conv_panel.h"
#include "conv_patches.h"
#include "conv_core.h"
#include "conv_columns.h"
#include "conv_grad_x.h"
#include "conv_grad_w.h"
#include "conv_depthwise.h"
