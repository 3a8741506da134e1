/* The threads of a team on the host: fibers that take turns, one after the other, from one sync to the next. */
#ifndef SDBR_TEAMS_ON_HOST_H
#define SDBR_TEAMS_ON_HOST_H

#define _GNU_SOURCE
#include <stdlib.h>
#include <ucontext.h>

#define SDBR_TORN_TEAM UINT64_MAX

enum { SDBR_HOST_THREADS = SDBR_DEVICE_THREADS, SDBR_HOST_STACK = 64 * 1024 };

typedef void (*sdbr_team_body)(sdbr_team team, const sdbr_device_op *op);

static ucontext_t sdbr_host, sdbr_fibers[SDBR_HOST_THREADS];
static char sdbr_stacks[SDBR_HOST_THREADS][SDBR_HOST_STACK];
static int sdbr_is_done[SDBR_HOST_THREADS];
static int64_t sdbr_turn;
static sdbr_team sdbr_now;
static sdbr_team_body sdbr_body_now;
static const sdbr_device_op *sdbr_op_now;
static __attribute__((unused)) void sdbr_wait(void) { swapcontext(&sdbr_fibers[sdbr_turn], &sdbr_host); }
#define SDBR_SYNC(team) sdbr_wait()
/* Of the driver: lets the kernel in front of this one run, if it has not yet. */
void (*sdbr_on_begin)(void);
#define SDBR_BEGIN() \
    do { \
        if (sdbr_on_begin) \
            sdbr_on_begin(); \
    } while (0)

static void sdbr_fiber(void) {
    sdbr_team team = sdbr_now;
    team.rank = sdbr_turn;
    sdbr_body_now(team, sdbr_op_now);
    sdbr_is_done[sdbr_turn] = 1;
    for (;;)
        swapcontext(&sdbr_fibers[sdbr_turn], &sdbr_host);
}

static void sdbr_run_team(int64_t size) {
    int64_t done = 0;
    for (int64_t k = 0; k < size; k++) {
        getcontext(&sdbr_fibers[k]);
        sdbr_fibers[k].uc_stack.ss_sp = sdbr_stacks[k];
        sdbr_fibers[k].uc_stack.ss_size = SDBR_HOST_STACK;
        sdbr_fibers[k].uc_link = NULL;
        makecontext(&sdbr_fibers[k], sdbr_fiber, 0);
        sdbr_is_done[k] = 0;
    }
    while (done == 0) {
        for (sdbr_turn = 0; sdbr_turn < size; sdbr_turn++) {
            swapcontext(&sdbr_host, &sdbr_fibers[sdbr_turn]);
            done += sdbr_is_done[sdbr_turn];
        }
    }
    if (done != size) /* some threads came to an end before others of their team: never right */
        sdbr_op_now->fault->number = sdbr_op_now->fault->on_host->number = SDBR_TORN_TEAM;
}

/* Teams come one after the other, those of every other op backwards, and each looks for itself whether anything was wrong before. */
static __attribute__((unused)) void sdbr_run_teams(sdbr_team_body body, const sdbr_device_op *op, int64_t size,
                                                   int64_t groups, int64_t room, int is_counted) {
    static double scratch[SDBR_DEVICE_ROOM];
    sdbr_body_now = body;
    sdbr_op_now = op;
    for (int64_t k = 0; k < groups; k++) {
        const int64_t group = op->number % 2 ? k : groups - 1 - k;
        if (!is_counted && sdbr_is_off(op))
            return;
        for (int64_t i = 0; i < SDBR_DEVICE_ROOM; i++)
            scratch[i] = -1e300; /* nobody may rely on what is there */
        const sdbr_team team = {0, size, group, groups, scratch, room};
        sdbr_now = team;
        sdbr_run_team(size);
    }
}

#endif
