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

/* Of so many operands of the next op, so many lines of the cache. */
#define SDBR_AHEAD 4

/* The same for ops that go through memory which is in no cache: while one runs, the first lines of what the next one
 * reads are on their way. The processor finds out by itself how an array goes on, and not where the next one lies.
 * Behind the operands of the last op lie SDBR_AHEAD pointers more. */
static inline int64_t sdbr_run_ahead(const sdbr_op *ops, int64_t begin, int64_t end, int *status)
{
    int64_t i = begin;
    int result = SDBR_OK;
    for (; i < end; ++i) {
        if (i + 1 < end)
            for (int k = 0; k < SDBR_AHEAD; ++k)
                for (int line = 0; line < SDBR_AHEAD; ++line)
                    __builtin_prefetch((const void *)((uintptr_t)ops[i + 1].operands[k] + 64 * line));
        result = ops[i].kernel(&ops[i]);
        if (__builtin_expect(result != SDBR_OK, 0))
            break;
    }
    *status = result;
    return i;
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

/* The same with the time of each op added to seconds[op]: each lasts from one look at the clock to the next. */
static inline int64_t sdbr_run_timed(const sdbr_op *ops, int64_t begin, int64_t end, int *status, double *seconds)
{
    double last = sdbr_seconds();
    *status = SDBR_OK;
    for (int64_t i = begin; i < end; ++i) {
        *status = ops[i].kernel(&ops[i]);
        double now = sdbr_seconds();
        seconds[i] += now - last;
        last = now;
        if (*status != SDBR_OK)
            return i;
    }
    return end;
}

/* What one look at the clock takes. */
static inline double sdbr_clock_cost(int64_t n)
{
    double start = sdbr_seconds(), last = start;
    for (int64_t i = 0; i < n; ++i)
        last = sdbr_seconds();
    return (last - start) / (double)n;
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
