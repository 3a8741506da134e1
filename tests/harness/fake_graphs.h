/* Graphs of the driver without a device: what was launched while streams recorded, and after what each has to come.
 * They run one kernel after the other, in any order that this allows. */
#ifndef FAKE_GRAPHS_H
#define FAKE_GRAPHS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void (*kernel)(const void *parameters, int64_t threads, int64_t teams);

typedef struct node node;
typedef struct nodes {
    node **at;
    int64_t count;
} nodes;

struct node {
    kernel run;
    void *parameters;
    unsigned teams;
    int is_early;        /* may begin before the one before it has ended, and waits for that itself */
    int is_foreign;      /* of a library, or a copy */
    int is_copy;
    uintptr_t from, to;  /* memory that is this launch's alone while it runs */
    int64_t number;      /* in the order of recording */
    nodes before, after;
    int64_t left;        /* of those before, in a run */
    int64_t end;         /* when it ended, on the clock of a run */
    int64_t seen;        /* by which walk last */
    node *owes;          /* the one before it, which has not run when it begins */
};

/* A capture that goes on; several streams may be part of it. */
typedef struct capture {
    int64_t number;
    nodes all;
    void *origin;
    int is_broken;       /* somebody waited for the device meanwhile */
} capture;

/* 0: as recorded; 1: what has become ready last; 2: what was recorded last; more: by chance, from this number on. */
int64_t fake_order;
/* Milliseconds that a kernel takes, and how many fewer where it begins early; kernels that began early and did not wait;
 * that began early at all. */
int64_t fake_kernel_costs, fake_early_saves, fake_unwaited, fake_early;
int64_t fake_launches, fake_nodes, fake_threads = 7, fake_teams = 3, fake_clock;

static void append(nodes *to, node *one) {
    for (int64_t k = 0; k < to->count; k++)
        if (to->at[k] == one)
            return;
    to->at = realloc(to->at, (size_t)(to->count + 1) * sizeof(node *));
    to->at[to->count++] = one;
}
static void append_all(nodes *to, const nodes *from) {
    for (int64_t k = 0; k < from->count; k++)
        append(to, from->at[k]);
}
static void clear(nodes *all) {
    free(all->at);
    *all = (nodes){NULL, 0};
}

static void free_node(node *one) {
    clear(&one->before);
    clear(&one->after);
    free(one->parameters);
    free(one);
}
static void free_nodes(nodes *all) {
    for (int64_t k = 0; k < all->count; k++)
        free_node(all->at[k]);
    fake_nodes -= all->count;
    clear(all);
}

/* Kernels that begin early: the one before runs when they wait for it. */
static node *owed;
static void start(node *one) {
    node *mine = one->owes;
    one->owes = NULL;
    owed = mine;
    if (fake_threads || one->is_copy) { /* somebody is there to run it */
        one->run(one->parameters, fake_threads, one->teams < fake_teams ? one->teams : fake_teams);
        fake_launches += !one->is_copy;
    }
    if (!mine || owed != mine)
        return;
    fake_unwaited += fake_threads != 0;
    owed = NULL;
    start(mine);
}
static void on_begin(void) {
    node *one = owed;
    owed = NULL;
    if (one)
        start(one);
}

/* Where chance begins, so that one order is the same whatever ran before. */
int64_t fake_chance = 88172645463325252;
static uint64_t chance(void) {
    uint64_t state = (uint64_t)fake_chance ^ (uint64_t)fake_order * 0x9e3779b97f4a7c15u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    fake_chance = (int64_t)state;
    return state;
}

/* Takes one of those that are ready; the last in the list has become so last. */
static node *chosen(nodes *ready) {
    int64_t best = ready->count - 1;
    if (fake_order > 2)
        best = (int64_t)(chance() % (uint64_t)ready->count);
    for (int64_t k = 0; k < ready->count && (fake_order == 0 || fake_order == 2); k++) {
        const int is_later = ready->at[k]->number > ready->at[best]->number;
        best = is_later == (fake_order == 2) ? k : best;
    }
    node *one = ready->at[best];
    memmove(ready->at + best, ready->at + best + 1, (size_t)(--ready->count - best) * sizeof(node *));
    return one;
}

/* The one that may begin while this one runs. */
static node *early_after(const node *one) {
    for (int64_t k = 0; k < one->after.count; k++)
        if (one->after.at[k]->is_early && (fake_order <= 2 || chance() % 2))
            return one->after.at[k];
    return NULL;
}

static void ended(node *one, nodes *ready, const node *now) {
    int64_t begin = 0;
    for (int64_t k = 0; k < one->before.count; k++)
        if (one->before.at[k]->end > begin)
            begin = one->before.at[k]->end;
    one->end = begin + fake_kernel_costs - (one->is_early ? fake_early_saves : 0);
    for (int64_t k = 0; k < one->after.count; k++)
        if (!--one->after.at[k]->left && one->after.at[k] != now)
            append(ready, one->after.at[k]);
}

static void run_graph(const nodes *all) {
    nodes ready = {NULL, 0};
    int64_t last = 0;
    for (int64_t k = 0; k < all->count; k++) {
        all->at[k]->left = all->at[k]->before.count;
        if (!all->at[k]->left)
            append(&ready, all->at[k]);
    }
    while (ready.count) {
        node *first = chosen(&ready), *end = first;
        for (node *next; (next = early_after(end)); end = next) {
            next->owes = end;
            fake_early++;
        }
        start(end);
        for (node *one = first, *next; one; one = next) {
            next = one == end ? NULL : one->after.at[0];
            for (int64_t k = 0; next && !(next->is_early && next->before.at[0] == one); k++)
                next = one->after.at[k];
            ended(one, &ready, next);
            last = one->end > last ? one->end : last;
        }
    }
    fake_clock += last;
    clear(&ready);
}

static int walk(node *later, const node *one, int64_t number) {
    if (later->seen == number)
        return 0;
    later->seen = number;
    for (int64_t k = 0; k < later->before.count; k++) {
        node *before = later->before.at[k];
        if (before == one || (before->number > one->number && walk(before, one, number)))
            return 1;
    }
    return 0;
}
static int comes_after(node *later, const node *one) {
    static int64_t walks;
    return walk(later, one, ++walks);
}

/* Whether two that may run at once have the same memory for themselves. */
static int is_shared(const nodes *all) {
    for (int64_t j = 0; j < all->count; j++)
        for (int64_t k = 0; k < j; k++) {
            node *a = all->at[k], *b = all->at[j];
            if (a->from < b->to && b->from < a->to && !comes_after(b, a))
                return 1;
        }
    return 0;
}

static void make_after(nodes *all) {
    for (int64_t j = 0; j < all->count; j++)
        for (int64_t k = 0; k < all->at[j]->before.count; k++)
            append(&all->at[j]->before.at[k]->after, all->at[j]);
}

#endif
