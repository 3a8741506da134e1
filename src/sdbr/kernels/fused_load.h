/* What fused.h shares between dtypes. */
#ifndef SDBR_FUSED_LOAD_H
#define SDBR_FUSED_LOAD_H

#include <stdint.h>

#define FUSED_BYTES 32768   /* of all buffers of one op, on the stack */
#define FUSED_REGISTERS 48  /* operands, temporaries and loaded inputs */
#define FUSED_AXES 6

/* Walks over a strided operand in C order, some elements at a time; `again` is 0 where every block is
 * the same. */
struct sdbr_fused_load {
    const char *at;
    const int64_t *shape, *strides;
    int64_t buffer, again, ndim, index[FUSED_AXES];
};

#endif
