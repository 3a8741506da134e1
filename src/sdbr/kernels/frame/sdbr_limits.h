/* Numbers that the kernels and the Python that prepares for them have to agree on: base/limits.py
 * has them, too, and is compared with this list when the backend is loaded. */
#ifndef SDBR_LIMITS_H
#define SDBR_LIMITS_H

#define SDBR_LIMITS(X)                                                                                \
    X(MAX_DIM, 32)           /* axes that a strided kernel walks over */                              \
    X(THREADS, 64)           /* of one op, the calling one among them */                              \
    X(SPLIT_OPERANDS, 32)    /* of a kernel whose op is cut into parts */                             \
    X(SPLIT_INTS, 512)       /* of the same */                                                        \
    X(BRANCHES, 4)           /* of a fork */                                                          \
    X(REQUESTS, 64)          /* collectives of a program that may be under way at once */             \
    X(FUSED_BYTES, 32768)    /* of all buffers of a fused op, on the stack */                         \
    X(FUSED_REGISTERS, 48)   /* operands, temporaries and loaded inputs of a fused op */              \
    X(FUSED_AXES, 6)         /* of a strided input of a fused op */                                   \
    X(CONV_WIDTH, 32)        /* columns of the widest panel, at any SIMD level */                     \
    X(CONV_STEP, 48)         /* elements from one row of such a panel to the next, of patches */      \
    X(CONV_DEPTH, 256)       /* rows of a panel, see product/setup.h */                                  \
    X(CONV_ROWS, 64)         /* rows of the columns that convolution_grad_x makes at once */          \
    X(CONV_PATCHES, 128)     /* rows of patches that convolution_grad_w makes at once */              \
    X(CONV_PATCH_STEP, 272)  /* elements from one of these rows to the next */                        \
    X(CONV_STRIP, 4)         /* panels that are packed at once: what they read of x are longer stretches */

#define SDBR_LIMIT_VALUE(name, value) SDBR_##name = value,
enum { SDBR_LIMITS(SDBR_LIMIT_VALUE) SDBR_NO_LIMIT };
#undef SDBR_LIMIT_VALUE

/* Fails to compile unless `condition` holds; C99 has no static assertion. */
#define SDBR_HOLDS(name, condition) SDBR_HOLDS_AS(name, condition)
#define SDBR_HOLDS_AS(name, condition) typedef char sdbr_holds_##name[(condition) ? 1 : -1]

#endif
