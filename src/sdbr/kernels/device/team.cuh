/* What kernels for GPUs are written in: the part of C that C99 and CUDA C++ share, so that the same source is a
 * kernel of a device, and a function of the host that tests call.
 *
 * An op is one function over a team: threads that wait for each other and share scratch memory. Several teams share
 * an op, each with a part of its own. A kernel is a grid of teams, one per block. */
#ifndef SDBR_TEAM_CUH
#define SDBR_TEAM_CUH

#include "frame/template.h"

/* Python that prepares launches has these, too (backends/cuda/launch.py), and compares them. */
enum {
    SDBR_DEVICE_OPERANDS = 16,
    SDBR_DEVICE_INTS = 48,
    SDBR_DEVICE_AXES = 8,
    SDBR_DEVICE_THREADS = 256, /* of a team, at most */
    SDBR_DEVICE_SCRATCH = 2048, /* doubles */
    SDBR_DEVICE_ROOM = 6144     /* those of kernels that keep rows there: as many as a block has without asking */
};

/* What went wrong first; `number` is 0 as long as nothing has. See SDBR_INDEX_ERROR in frame/abi.h. All programs of a
 * device share one, in its memory, with a copy where the host can look at it without waiting. */
typedef struct sdbr_fault {
    unsigned long long number;
    int64_t value, bound, position;
    struct sdbr_fault *on_host;
} sdbr_fault;

/* An op as a launch hands it over, by value; see sdbr_op in frame/abi.h. */
typedef struct sdbr_device_op {
    char *operands[SDBR_DEVICE_OPERANDS];
    uint64_t moving;      /* bit k: operand k lies where *operands[k] says, since its address changes from run to run */
    const double *floats; /* those of the op in the control block */
    sdbr_fault *fault;
    double *work;         /* between the launches of one op, or what was drawn for it */
    int64_t number;       /* of the op among those of all programs, from 1 on */
    int64_t is_lasting;   /* writes what outlives the run: not after a fault */
    int64_t makes_draws;  /* not 0: the op of its program, from 1 on; `work` has a seed and the run, see philox.cuh */
    int64_t ints[SDBR_DEVICE_INTS];
} sdbr_device_op;

typedef struct sdbr_team {
    int64_t rank, size;    /* of a thread in its team */
    int64_t group, groups; /* of the team among those of the op */
    double *scratch;       /* memory that the team shares */
    int64_t room;          /* doubles of it */
} sdbr_team;

/* The first of the elements that a thread does, and how far it is to the next, where each is by itself. */
SDBR_INLINE int64_t sdbr_first(sdbr_team team) { return team.group * team.size + team.rank; }
SDBR_INLINE int64_t sdbr_stride(sdbr_team team) { return team.groups * team.size; }

SDBR_INLINE char *sdbr_at(const sdbr_device_op *op, int k) {
    char *at = op->operands[k];
    return op->moving >> k & 1 ? *(char *const *)at : at;
}
#define SDBR_IN(k) ((const T *)sdbr_at(op, k))
#define SDBR_OUT(k) ((T *)sdbr_at(op, k))

/* Whether an op must not write any more: it writes what outlives the run, in which something was wrong. */
SDBR_INLINE int sdbr_is_off(const sdbr_device_op *op) { return op->is_lasting && op->fault->number; }

#if defined(__CUDACC__)
#define SDBR_SYNC(team) __syncthreads()
/* The first thing that a kernel does. It may have been launched before the one in front of it has ended: it waits till that
 * has, and all that it wrote can be seen, and lets the next one do the same. Otherwise there is nothing to wait for. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define SDBR_BEGIN() \
    do { \
        asm volatile("griddepcontrol.wait;" ::: "memory"); \
        asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); \
    } while (0)
#else
#define SDBR_BEGIN() ((void)0)
#endif
#define SDBR_KERNEL_OF(name, body, doubles, is_counted) \
    extern "C" __global__ void __launch_bounds__(SDBR_DEVICE_THREADS) \
        name(const __grid_constant__ sdbr_device_op op) { \
        SDBR_BEGIN(); \
        if (!(is_counted) && sdbr_is_off(&op)) \
            return; \
        __shared__ double scratch[doubles]; \
        const sdbr_team team = {(int64_t)threadIdx.x, (int64_t)blockDim.x, (int64_t)blockIdx.x, (int64_t)gridDim.x, \
                                scratch, doubles}; \
        body(team, &op); \
    }
#define SDBR_CHAIN_KERNEL(name, body, count) \
    typedef struct name##_ops { \
        sdbr_device_op ops[count]; \
    } name##_ops; \
    extern "C" __global__ void __launch_bounds__(SDBR_DEVICE_THREADS) name(const __grid_constant__ name##_ops chain) { \
        SDBR_BEGIN(); \
        __shared__ double scratch[SDBR_DEVICE_SCRATCH]; \
        const sdbr_team team = {(int64_t)threadIdx.x, (int64_t)blockDim.x, 0, 1, scratch, SDBR_DEVICE_SCRATCH}; \
        body(team, chain.ops); \
    }
#define SDBR_FIRST_TO(word, value) (atomicCAS(word, 0ull, value) == 0ull)
#define SDBR_FENCE() __threadfence_system()
#define SDBR_ADD(at, value) atomicAdd(at, value)
#define SDBR_TICKET(counter) atomicAdd(counter, 1u)
#define SDBR_SHOW() __threadfence() /* what was written before is there for who sees what is written after */
/* In double, and never one operation. */
#define SDBR_ROUNDED_PRODUCT(a, b) __dmul_rn(a, b)
#define SDBR_SUM_OF_ROUNDED(a, b) __dadd_rn(a, b)
#else
/* Of who calls kernels on the host: SDBR_SYNC lets all other threads of the team come to it, SDBR_BEGIN the kernel that
 * was launched before, sdbr_run_teams runs a body on all threads of all teams. */
#include "teams_on_host.h"
#define SDBR_KERNEL_OF(name, body, doubles, is_counted) \
    void name(const sdbr_device_op *op, int64_t size, int64_t groups) { \
        SDBR_BEGIN(); \
        sdbr_run_teams(body, op, size, groups, doubles, is_counted); \
    }
#define SDBR_CHAIN_KERNEL(name, body, count) \
    void name(const sdbr_device_op *ops, int64_t size, int64_t groups) { \
        (void)groups; \
        SDBR_BEGIN(); \
        sdbr_run_teams(body, ops, size, 1, SDBR_DEVICE_SCRATCH, 1); \
    }
#define SDBR_FENCE() ((void)0)
#define SDBR_FIRST_TO(word, value) (*(word) == 0 ? (*(word) = (value), 1) : 0)
#define SDBR_ADD(at, value) (*(at) += (value))
#define SDBR_TICKET(counter) ((*(counter))++)
#define SDBR_SHOW() ((void)0)
#define SDBR_ROUNDED_PRODUCT(a, b) ((a) * (b)) /* compiled without contractions */
#define SDBR_SUM_OF_ROUNDED(a, b) ((a) + (b))
const int64_t sdbr_device_op_bytes = sizeof(sdbr_device_op), sdbr_fault_bytes = sizeof(sdbr_fault);
#endif

#define SDBR_KERNEL(name, body) SDBR_KERNEL_OF(name, body, SDBR_DEVICE_SCRATCH, 0)

/* Whether this is the last team of an op to come here: it sees what all others have written to op->work. The first double
 * there counts them, and is 0 again when the last one has come. So all have to come, also where the op is off: kernels
 * that ask are SDBR_COUNTED_KERNELs. */
SDBR_INLINE int sdbr_is_last(sdbr_team team, const sdbr_device_op *op) {
    unsigned *counter = (unsigned *)op->work;
    int *is_last = (int *)team.scratch;
    if (team.groups == 1)
        return 1;
    SDBR_SHOW();
    SDBR_SYNC(team);
    if (team.rank == 0) {
        *is_last = SDBR_TICKET(counter) == (unsigned)team.groups - 1;
        if (*is_last)
            *counter = 0;
        SDBR_SHOW();
    }
    SDBR_SYNC(team);
    const int found = *is_last;
    SDBR_SYNC(team);
    return found;
}

/* One of several ops that one team does one after the other. Whether anything was wrong is the same for all threads:
 * they have all looked before one of them goes on. */
#define SDBR_LINK(body, op) \
    do { \
        const int is_off = sdbr_is_off(op); \
        SDBR_SYNC(team); \
        if (!is_off) \
            body(team, op); \
        SDBR_SYNC(team); \
    } while (0)

/* Notes what is wrong, unless something was before. The host sees the number last. */
SDBR_INLINE void sdbr_note_fault(const sdbr_device_op *op, int64_t value, int64_t bound, int64_t position) {
    sdbr_fault *fault = op->fault;
    if (!SDBR_FIRST_TO(&fault->number, (unsigned long long)op->number))
        return;
    volatile sdbr_fault *on_host = fault->on_host;
    on_host->value = value;
    on_host->bound = bound;
    on_host->position = position;
    SDBR_FENCE();
    on_host->number = (unsigned long long)op->number;
}

#endif
