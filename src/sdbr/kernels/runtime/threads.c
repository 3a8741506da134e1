/* A team of threads. One task at a time: who finds it busy works alone.
 *
 * A worker that is awake looks for a new task for a while before it sleeps, because the ops of a
 * program follow each other within microseconds. One that wakes up late finds the task closed and
 * costs the caller nothing: the caller takes parts, too, until none is left. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "runtime/flush.h"
#include "runtime/threads.h"

enum { MOST_WORKERS = SDBR_THREADS - 1, LOOKS = 2000 };

static struct {
    void (*run)(void *, int64_t);
    void *context;
    int64_t n;
    int64_t next;       /* the first part that nobody has taken */
    int64_t generation; /* of the task; workers compare it with the last one they saw */
    int open;           /* whether workers may still join */
    int users;          /* workers inside */
    int wanted;         /* workers that may join */
    int busy;
    int sleeping;
    int workers;
    int watched; /* whether forks are noticed */
} team;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define STORE(x, value) __atomic_store_n(&(x), value, __ATOMIC_SEQ_CST)
#define ADD(x, value) __atomic_fetch_add(&(x), value, __ATOMIC_SEQ_CST)

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

static void take_parts(void)
{
    int64_t part;
    while ((part = ADD(team.next, 1)) < team.n)
        team.run(team.context, part);
}

static void *work(void *argument)
{
    const int number = (int)(intptr_t)argument;
    int64_t seen = 0;
    for (;;) {
        for (int look = 0; look < LOOKS && LOAD(team.generation) == seen; ++look)
            relax();
        if (LOAD(team.generation) == seen) {
            pthread_mutex_lock(&mutex);
            ADD(team.sleeping, 1);
            while (LOAD(team.generation) == seen)
                pthread_cond_wait(&wake, &mutex);
            ADD(team.sleeping, -1);
            pthread_mutex_unlock(&mutex);
        }
        seen = LOAD(team.generation);
        ADD(team.users, 1); /* before the look at `open`: the caller closes, then waits for users */
        if (LOAD(team.open) && number < LOAD(team.wanted))
            take_parts();
        ADD(team.users, -1);
    }
    return NULL;
}

/* In a forked child there are no workers, and nobody is at work. */
static void forget(void)
{
    int watched = team.watched;
    memset(&team, 0, sizeof team);
    team.watched = watched;
    pthread_mutex_init(&mutex, NULL);
    pthread_cond_init(&wake, NULL);
}

/* Workers take no signals: Python's handlers belong to threads that know Python. */
static void start_workers(int wanted)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    if (!team.watched) {
        pthread_atfork(NULL, NULL, forget);
        team.watched = 1;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    while (team.workers < wanted) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, work, (void *)(intptr_t)team.workers) != 0)
            break; /* the caller takes the parts that nobody else does */
        ++team.workers;
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void sdbr_parallel(int threads, int64_t n, void (*run)(void *, int64_t), void *context)
{
    int wanted = (int)((threads < n ? threads : n) - 1);
    int idle = 0;
    if (wanted > MOST_WORKERS)
        wanted = MOST_WORKERS;
    if (wanted < 1 || !__atomic_compare_exchange_n(&team.busy, &idle, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        for (int64_t part = 0; part < n; ++part)
            run(context, part);
        return;
    }
    if (team.workers < wanted)
        start_workers(wanted);
    team.run = run;
    team.context = context;
    team.n = n;
    STORE(team.next, 0);
    STORE(team.wanted, wanted);
    STORE(team.open, 1);
    ADD(team.generation, 1);
    if (LOAD(team.sleeping) > 0) {
        pthread_mutex_lock(&mutex);
        pthread_cond_broadcast(&wake);
        pthread_mutex_unlock(&mutex);
    }
    take_parts();
    STORE(team.open, 0);
    while (LOAD(team.users) > 0)
        relax();
    STORE(team.busy, 0);
}

struct parts {
    const sdbr_op *op;
    const sdbr_split_header *header;
    int64_t total;
    int64_t n;
    int status;
};

static void run_part(void *context, int64_t part)
{
    struct parts *parts = context;
    const sdbr_split_header *header = parts->header;
    const int64_t *steps = (const int64_t *)(header + 1);
    const int64_t grains = (parts->total + header->grain - 1) / header->grain;
    const int64_t begin = part * grains / parts->n * header->grain;
    int64_t end = (part + 1) * grains / parts->n * header->grain;
    char *operands[SDBR_SPLIT_OPERANDS];
    int64_t ints[SDBR_SPLIT_INTS];
    sdbr_runtime runtime = *parts->op->runtime;
    sdbr_op op = *parts->op;
    uint64_t mode = 0;
    int status;
    if (end > parts->total)
        end = parts->total;
    if (begin >= end)
        return;
    for (int64_t i = 0; i < header->n_operands; ++i)
        operands[i] = op.operands[i] + begin * steps[i];
    memcpy(ints, steps + header->n_operands, (size_t)header->n_ints * sizeof *ints);
    ints[header->count] = end - begin;
    op.operands = operands;
    op.ints = ints;
    op.runtime = &runtime;
    if (runtime.flush)
        mode = sdbr_flush_begin(runtime.flush);
    status = ((sdbr_kernel)(uintptr_t)header->kernel)(&op);
    if (runtime.flush)
        sdbr_flush_end(mode);
    if (status != SDBR_OK)
        __atomic_store_n(&parts->status, status, __ATOMIC_RELAXED);
}

int sdbr_split(const sdbr_op *op)
{
    const sdbr_split_header *header = (const sdbr_split_header *)op->ints;
    const int64_t *ints = op->ints + sizeof *header / sizeof *op->ints + header->n_operands;
    struct parts parts = {op, header, ints[header->count], op->runtime->threads, SDBR_OK};
    if (parts.n > parts.total / header->least)
        parts.n = parts.total / header->least;
    if (parts.n < 1)
        parts.n = 1;
    sdbr_parallel(op->runtime->threads, parts.n, run_part, &parts);
    return parts.status;
}

struct shares {
    const sdbr_op *op;
    void (*share)(const sdbr_op *, int64_t, int64_t);
    int64_t n;
};

static void run_share(void *context, int64_t part)
{
    const struct shares *shares = context;
    uint64_t mode = 0;
    if (shares->op->runtime->flush)
        mode = sdbr_flush_begin(shares->op->runtime->flush);
    shares->share(shares->op, part, shares->n);
    if (shares->op->runtime->flush)
        sdbr_flush_end(mode);
}

void sdbr_share(const sdbr_op *op, int64_t most, void (*share)(const sdbr_op *, int64_t, int64_t))
{
    struct shares shares = {op, share, op->runtime->threads < most ? op->runtime->threads : most};
    if (shares.n > 1)
        sdbr_parallel(op->runtime->threads, shares.n, run_share, &shares);
    else
        share(op, 0, 1);
}

static void run_branch(void *context, int64_t branch)
{
    const sdbr_op *fork = context;
    const int64_t *lengths = fork->ints + 1;
    const int64_t *kernels = lengths + SDBR_BRANCHES;
    const sdbr_op *ops = fork + 1;
    sdbr_runtime runtime = *fork->runtime;
    uint64_t mode = 0;
    for (int64_t i = 0; i < branch; ++i) {
        ops += lengths[i];
        kernels += lengths[i];
    }
    if (runtime.flush)
        mode = sdbr_flush_begin(runtime.flush);
    for (int64_t i = 0; i < lengths[branch]; ++i) {
        sdbr_op op = ops[i];
        op.runtime = &runtime;
        ((sdbr_kernel)(uintptr_t)kernels[i])(&op);
    }
    if (runtime.flush)
        sdbr_flush_end(mode);
}

int sdbr_fork(const sdbr_op *op)
{
    sdbr_parallel(op->runtime->threads, op->ints[0], run_branch, (void *)(uintptr_t)op);
    return SDBR_OK;
}
