/* The outer loops of strided kernels. */
#ifndef SDBR_ND_LOOP_H
#define SDBR_ND_LOOP_H

#include "frame/template.h"

#define SDBR_MAX_OPERANDS 4

typedef void (*sdbr_inner_loop)(char *const *at, const int64_t *step, int64_t n, const double *floats);

/* ints: [ndim >= 1, shape[ndim], strides of operand 0[ndim], of operand 1[ndim], ...]; bytes. The last
 * axis is the inner loop. Nothing is called when a length is 0. */
static int sdbr_nd_loop(const sdbr_op *op, int n_operands, sdbr_inner_loop inner) {
    const int64_t ndim = op->ints[0], *shape = op->ints + 1, *strides = shape + ndim;
    const int64_t last = ndim - 1, n = shape[last];
    char *at[SDBR_MAX_OPERANDS] = {0};
    int64_t step[SDBR_MAX_OPERANDS] = {0}, index[SDBR_MAX_DIM] = {0};
    for (int k = 0; k < n_operands; k++) {
        at[k] = op->operands[k];
        step[k] = strides[k * ndim + last];
    }
    for (int64_t d = 0; d < ndim; d++)
        if (shape[d] == 0)
            return SDBR_OK;
    for (;;) {
        inner(at, step, n, op->floats);
        int64_t d = last - 1;
        for (; d >= 0; d--) {
            const int more = ++index[d] < shape[d];
            const int64_t move = more ? 1 : 1 - shape[d];
            for (int k = 0; k < n_operands; k++)
                at[k] += move * strides[k * ndim + d];
            if (more)
                break;
            index[d] = 0;
        }
        if (d < 0)
            return SDBR_OK;
    }
}

#endif
