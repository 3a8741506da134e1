/* What a kernel sees. A prepared program is an array of sdbr_op; the loop calls
 * op->kernel(op) for each and stops at the first status that is not SDBR_OK.
 * Kernels check nothing but indices that come from data. Another thread of the program may write to
 * these meanwhile: what is checked and then used is a copy that nobody else knows (label.h). */
#ifndef SDBR_ABI_H
#define SDBR_ABI_H

#include <stddef.h>
#include <stdint.h>

struct sdbr_flight; /* frame/flight.h: nothing for devices, whose kernels include this file */

enum sdbr_status {
    SDBR_NO_MEMORY = -1,
    SDBR_OK = 0,
    SDBR_INDEX_ERROR = 1, /* runtime->fault_value out of [0, runtime->fault_bound) at runtime->fault_position */
    SDBR_OTHER_ANSWER = 2 /* runtime->fault_value to question runtime->fault_position; nobody's fault */
};

/* BLAS is reached through these pointers alone (Fortran interface, column-major). */
typedef void (*sdbr_sgemm_t)(char *, char *, int *, int *, int *, float *, float *, int *, float *, int *, float *,
                             float *, int *);
typedef void (*sdbr_dgemm_t)(char *, char *, int *, int *, int *, double *, double *, int *, double *, int *, double *,
                             double *, int *);
typedef void (*sdbr_sgemv_t)(char *, int *, int *, float *, float *, int *, float *, int *, float *, float *, int *);
typedef void (*sdbr_dgemv_t)(char *, int *, int *, double *, double *, int *, double *, int *, double *, double *,
                             int *);

/* Layout of NumPy's bitgen_t (numpy/random/bitgen.h), of which only next_double is used. */
typedef struct sdbr_bitgen {
    void *state;
    uint64_t (*next_uint64)(void *);
    uint32_t (*next_uint32)(void *);
    double (*next_double)(void *);
    uint64_t (*next_raw)(void *);
} sdbr_bitgen;

typedef struct sdbr_runtime {
    sdbr_sgemm_t sgemm;
    sdbr_dgemm_t dgemm;
    sdbr_sgemv_t sgemv;
    sdbr_dgemv_t dgemv;
    sdbr_bitgen *bitgen; /* NumPy's global generator, locked by the caller while a program draws */
    int64_t fault_value;
    int64_t fault_bound;
    int64_t fault_position;
    int32_t threads; /* that parts of one op may run on */
    int32_t flush;   /* of the ops that run now: enum sdbr_flush */
    int32_t is_far;  /* whether updates go through more memory than caches hold */
    struct sdbr_flight *flight; /* collectives of the program that are under way */
} sdbr_runtime;

typedef struct sdbr_op {
    int (*kernel)(const struct sdbr_op *op);
    char **operands;       /* one pointer per operand, inputs before outputs; patched when a slot is rebound */
    const int64_t *ints;   /* prepared integers: sizes, strides, attributes; their meaning belongs to the kernel */
    const double *floats;  /* float attributes in the order of the op table; patched from the control block */
    sdbr_runtime *runtime;
} sdbr_op;

typedef int (*sdbr_kernel)(const sdbr_op *op);

/* What a library outside of the kernels has prepared: the kernel `foreign` finds its address in
 * op->ints[0]. A status above SDBR_OTHER_ANSWER is that of the library. */
typedef struct sdbr_foreign {
    int (*run)(struct sdbr_foreign *self, char **operands);
} sdbr_foreign;

/* What a unit of kernels holds, ended by a NULL name. Names: <op>_<variant>_<dtype>. */
typedef struct sdbr_registry_entry {
    const char *name;
    sdbr_kernel kernel;
} sdbr_registry_entry;

#endif
