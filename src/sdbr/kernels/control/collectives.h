/* Gradients that are averaged over ranks: by one collective, or by one that goes on while other ops
 * run. Functions, handles and requests are those of the MPI that is there at run time; its handles are
 * pointers, or ints. */
#include <string.h>

#include "frame/flight.h"

typedef int (*sdbr_sum_wide)(const void *, void *, int, void *, void *, void *);
typedef int (*sdbr_sum_narrow)(const void *, void *, int, int, int, int);
typedef int (*sdbr_begin_wide)(const void *, void *, int, void *, void *, void *, void *);
typedef int (*sdbr_begin_narrow)(const void *, void *, int, int, int, int, void *);

static int sdbr_mpi_status(int status) { return status ? SDBR_OTHER_ANSWER + 1 + (status & 0xffff) : SDBR_OK; }

/* mpi: the function, communicator, dtype, operation, MPI_IN_PLACE, whether handles are pointers. With
 * a request, the collective is begun and no more. */
static int summed(const int64_t *mpi, void *data, int64_t n, void *request) {
    const void *in_place = (const void *)(intptr_t)mpi[4];
    void *kind = (void *)(intptr_t)mpi[2], *sum = (void *)(intptr_t)mpi[3], *world = (void *)(intptr_t)mpi[1];
    const uintptr_t function = (uintptr_t)mpi[0];
    int status;
    if (mpi[5])
        status = request ? ((sdbr_begin_wide)function)(in_place, data, (int)n, kind, sum, world, request)
                         : ((sdbr_sum_wide)function)(in_place, data, (int)n, kind, sum, world);
    else
        status = request ? ((sdbr_begin_narrow)function)(in_place, data, (int)n, (int)mpi[2], (int)mpi[3],
                                                         (int)mpi[1], request)
                         : ((sdbr_sum_narrow)function)(in_place, data, (int)n, (int)mpi[2], (int)mpi[3], (int)mpi[1]);
    return sdbr_mpi_status(status);
}

/* g[k] = share * (sum of g[k] over ranks), one after the other in `flat` where there are several.
 * ints: the six of `summed`, those of a collective that goes on, the number of arrays, their sizes. */
#define COLLECTIVES(ext, T)                                                                             \
    static T *FN_OF(packed, ext)(const sdbr_op *op, const int64_t *sizes, T *flat, int64_t *n) {        \
        const int64_t count = sizes[-1];                                                                \
        *n = 0;                                                                                         \
        for (int64_t k = 0; k < count; *n += sizes[k++])                                                \
            if (count > 1)                                                                              \
                memcpy(flat + *n, op->operands[k], (size_t)sizes[k] * sizeof(T));                       \
        return count > 1 ? flat : (T *)op->operands[0];                                                 \
    }                                                                                                   \
    static void FN_OF(unpacked, ext)(char **operands, const int64_t *sizes, const T *flat, T share) {   \
        for (int64_t k = 0; k < sizes[-1]; flat += sizes[k++]) {                                        \
            T *g = (T *)operands[k];                                                                    \
            for (int64_t i = 0; i < sizes[k]; ++i)                                                      \
                g[i] = share * flat[i];                                                                 \
        }                                                                                               \
    }                                                                                                   \
    static int FN_OF(allreduce, ext)(const sdbr_op *op) {                                               \
        const int64_t *sizes = op->ints + 7;                                                            \
        int64_t n;                                                                                      \
        T *flat = FN_OF(packed, ext)(op, sizes, (T *)op->operands[op->ints[6]], &n);                    \
        const int status = summed(op->ints, flat, n, NULL);                                             \
        if (status == SDBR_OK)                                                                          \
            FN_OF(unpacked, ext)(op->operands, sizes, flat, (T)op->floats[0]);                          \
        return status;                                                                                  \
    }                                                                                                   \
    static int FN_OF(allreduce_begin, ext)(const sdbr_op *op) {                                         \
        const int64_t *sizes = op->ints + 10;                                                           \
        sdbr_flight *flight = op->runtime->flight;                                                      \
        int64_t n;                                                                                      \
        T *flat = FN_OF(packed, ext)(op, sizes, (T *)op->operands[op->ints[9]], &n);                    \
        flight->test = (sdbr_mpi_test)(uintptr_t)op->ints[6];                                           \
        flight->wait = (sdbr_mpi_wait)(uintptr_t)op->ints[7];                                           \
        const int status = summed(op->ints, flat, n, &flight->requests[op->ints[8]]);                   \
        if (status == SDBR_OK)                                                                          \
            flight->begun = op->ints[8] + 1;                                                            \
        return status;                                                                                  \
    }                                                                                                   \
    /* ints: the number of the collective, how many arrays, their sizes; operands: flat, the arrays. */ \
    static int FN_OF(allreduce_end, ext)(const sdbr_op *op) {                                           \
        const int64_t *sizes = op->ints + 2;                                                            \
        sdbr_flight *flight = op->runtime->flight;                                                      \
        const int status = sdbr_land(flight, op->ints[0] + 1);                                          \
        if (status)                                                                                     \
            return sdbr_mpi_status(status);                                                             \
        const char *flat = op->operands[op->ints[1] > 1 ? 0 : 1];                                       \
        FN_OF(unpacked, ext)(op->operands + 1, sizes, (const T *)flat, (T)op->floats[0]);               \
        return SDBR_OK;                                                                                 \
    }

#define FN_OF(name, ext) name##_##ext
COLLECTIVES(f4, float)
COLLECTIVES(f8, double)

/* Let collectives that are under way go on: many an MPI works at them only while it is called. */
static int allreduce_progress(const sdbr_op *op) {
    sdbr_flight *flight = op->runtime->flight;
    sdbr_mpi_state state;
    for (int64_t k = flight->ended; k < flight->begun; ++k) {
        int done = 0;
        const int status = flight->test(&flight->requests[k], &done, &state);
        if (status)
            return sdbr_mpi_status(status);
    }
    return SDBR_OK;
}
