/* Threads that take parts of one op. */
#ifndef SDBR_THREADS_H
#define SDBR_THREADS_H

#include "frame/abi.h"
#include "frame/sdbr_limits.h"

/* The kernel of an op that is cut into parts along one axis. Its integers are those of
 * sdbr_split_header, then `n_operands` steps in bytes per unit of that axis, then `n_ints` integers
 * of the kernel itself. */
typedef struct sdbr_split_header {
    int64_t kernel; /* address of the kernel that runs each part */
    int64_t n_operands;
    int64_t n_ints;
    int64_t count; /* which of its integers is the length of the axis */
    int64_t grain; /* parts begin at multiples of this */
    int64_t least; /* units that are worth a thread */
} sdbr_split_header;

int sdbr_split(const sdbr_op *op);

/* The ops behind this one run in branches. Its integers: the number of branches, the lengths of all
 * SDBR_BRANCHES, the addresses of the kernels of these ops, whose own are those of a nop. No
 * kernel of a branch reports an error: ops that look at indices from data are never in one. */
int sdbr_fork(const sdbr_op *op);

/* Calls run(context, 0) to run(context, n - 1), each once, on up to `threads` threads, this one among
 * them; returns when all are done. Other threads that come meanwhile run their calls themselves, as
 * does a call out of a call: there are never more threads at work than were asked for. */
void sdbr_parallel(int threads, int64_t n, void (*run)(void *, int64_t), void *context);

/* Calls share(op, i, n) for i from 0 to n - 1, where n is at most `most` and the threads of the op. For
 * kernels that cut their work themselves. */
void sdbr_share(const sdbr_op *op, int64_t most, void (*share)(const sdbr_op *op, int64_t part, int64_t parts));

#endif
