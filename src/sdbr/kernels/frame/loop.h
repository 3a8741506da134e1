/* The loop of the executor and its timing. */
#ifndef SDBR_LOOP_H
#define SDBR_LOOP_H

#include "frame/abi.h"

#include <time.h>

/* Runs ops [begin, end); returns the index of the op that failed, or `end`. */
static inline int64_t sdbr_run_segment(const sdbr_op *ops, int64_t begin, int64_t end, int *status)
{
    const sdbr_op *op = ops + begin;
    const sdbr_op *last = ops + end;
    int result = SDBR_OK;
    for (; op < last; ++op) {
        result = op->kernel(op);
        if (__builtin_expect(result != SDBR_OK, 0))
            break;
    }
    *status = result;
    return op - ops;
}

static inline double sdbr_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What this thread has computed: other processes on its core do not count. */
static inline double sdbr_thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The same with the time of each op added to seconds[op]. */
static inline int64_t sdbr_run_timed(const sdbr_op *ops, int64_t begin, int64_t end, int *status, double *seconds)
{
    *status = SDBR_OK;
    for (int64_t i = begin; i < end; ++i) {
        double start = sdbr_seconds();
        *status = ops[i].kernel(&ops[i]);
        seconds[i] += sdbr_seconds() - start;
        if (*status != SDBR_OK)
            return i;
    }
    return end;
}

/* `n` calls of one kernel through the same pointers: what a loop without dispatch would cost. */
static inline double sdbr_time_kernel(const sdbr_op *op, int64_t n)
{
    sdbr_kernel kernel = op->kernel;
    double start = sdbr_seconds();
    for (int64_t i = 0; i < n; ++i)
        kernel(op);
    return sdbr_seconds() - start;
}

/* Copies what changed: operand pointers of the slots that moved. Returns the first slot whose memory is missing or
 * smaller than the program needs, or -1. */
static inline int64_t sdbr_sync_slots(char **operands, char **last, char *const *pointers, const int64_t *sizes,
                                      const int32_t *slots, const int64_t *needed, int64_t n_slots,
                                      const int64_t *patch_starts, const int32_t *patch_operands,
                                      const int64_t *patch_offsets)
{
    for (int64_t s = 0; s < n_slots; ++s) {
        char *pointer = pointers[slots[s]];
        /* Whoever was slower than another thread is stopped here: also where a smaller array lies in
         * the place of the one before. */
        if (sizes[slots[s]] < needed[s])
            return s;
        if (pointer == last[s])
            continue;
        for (int64_t k = patch_starts[s]; k < patch_starts[s + 1]; ++k)
            operands[patch_operands[k]] = pointer + patch_offsets[k];
        last[s] = pointer;
    }
    return -1;
}

#endif
