/* Convolutions: products of w with patches of x, which are packed panel by panel and never as a whole. */
#include "product/setup.h"
#include "convolution/shape.h"
#include "runtime/threads.h"

#define SDBR_BY_DTYPE "convolution/kernels.h"
#include "frame/by_dtype.h"

#define SDBR_ENTRIES                                                                                 \
    SDBR_ENTRY(convolution) SDBR_ENTRY(convolution_grad_x) SDBR_ENTRY(convolution_grad_x_columns)    \
    SDBR_ENTRY(convolution_grad_w) SDBR_ENTRY(convolution_depthwise)                                 \
    SDBR_ENTRY(convolution_grad_x_depthwise) SDBR_ENTRY(convolution_grad_w_depthwise)
