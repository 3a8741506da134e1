/* Runs prepared primitives of oneDNN one after another, as one op. The library is never linked: its
 * functions are pointers that were looked up when it was found.
 *
 * A sequence is shared by all executables of a program, so it keeps nothing of a run: a run takes a
 * set of the library's memory objects and a block of scratch memory, both from pools that grow with
 * the number of threads that are inside at once. */
#ifndef SDBR_ONEDNN_H
#define SDBR_ONEDNN_H

#include <stdlib.h>

#include "frame/abi.h"

enum { SDBR_ONEDNN_NO_MEMORY = 999, SDBR_ONEDNN_STATUS = 1000 /* and the status of the library */ };

/* The layout of dnnl_exec_arg_t. */
typedef struct sdbr_onednn_argument {
    int key;
    void *memory;
} sdbr_onednn_argument;

typedef struct sdbr_onednn_library {
    void *engine;
    int (*stream_create)(void **, void *, unsigned);
    int (*stream_destroy)(void *);
    int (*stream_wait)(void *);
    int (*memory_create)(void **, const void *, void *, void *);
    int (*memory_destroy)(void *);
    int (*memory_set_data_handle)(void *, void *);
    int (*primitive_execute)(const void *, void *, int, const sdbr_onednn_argument *);
    int (*get_max_threads)(void); /* of OpenMP; NULL where the library has no such threads */
    void (*set_num_threads)(int);
} sdbr_onednn_library;

/* What one run at a time uses. */
typedef struct sdbr_onednn_set {
    struct sdbr_onednn_set *next;
    int busy;
    void *stream;
    sdbr_onednn_argument *arguments;
} sdbr_onednn_set;

typedef struct sdbr_onednn_sequence {
    sdbr_foreign foreign;
    const sdbr_onednn_library *library;
    int n_steps;
    int n_arguments;             /* of all steps together */
    const void **primitives;     /* per step */
    int *counts;                 /* per step: how many arguments */
    int *keys;                   /* per argument: the library's name for it */
    const void **layouts;        /* per argument: its memory descriptor */
    int64_t *places;             /* per argument: offset in the scratch memory, or -1 - operand */
    int64_t scratch;             /* bytes */
    sdbr_onednn_set *sets;
    int threads;
    unsigned generation;         /* of the process that made the primitives */
    int (*renew)(struct sdbr_onednn_sequence *);
    void *owner;
    /* What the library does not do to y[outer, channels, inner]: it is added to, gets a bias, relu. */
    int y;                       /* operand, or -1 */
    int bias;                    /* operand, or -1 */
    int relu;
    int64_t outer, channels, inner;
    int64_t sum;                 /* offset in the scratch memory of what is added to y, or -1 */
} sdbr_onednn_sequence;

/* Counts the forks between this process and the first one: threads of OpenMP do not survive one. */
static unsigned sdbr_onednn_generation;

/* --- scratch memory ------------------------------------------------------------------------- */

typedef struct sdbr_onednn_block {
    struct sdbr_onednn_block *next;
    int busy;
    int64_t size;
    char *data;
} sdbr_onednn_block;

static sdbr_onednn_block *sdbr_onednn_blocks;

static inline int sdbr_onednn_take(int *busy) {
    int free_one = 0;
    return __atomic_compare_exchange_n(busy, &free_one, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void sdbr_onednn_give(int *busy) { __atomic_store_n(busy, 0, __ATOMIC_RELEASE); }

static sdbr_onednn_block *sdbr_onednn_take_block(int64_t size) {
    sdbr_onednn_block *block = __atomic_load_n(&sdbr_onednn_blocks, __ATOMIC_ACQUIRE);
    while (block != NULL && !sdbr_onednn_take(&block->busy))
        block = block->next;
    if (block == NULL) {
        block = calloc(1, sizeof *block);
        if (block == NULL)
            return NULL;
        block->busy = 1;
        block->next = __atomic_load_n(&sdbr_onednn_blocks, __ATOMIC_ACQUIRE);
        while (!__atomic_compare_exchange_n(&sdbr_onednn_blocks, &block->next, block, 0, __ATOMIC_RELEASE,
                                            __ATOMIC_ACQUIRE)) {
        }
    }
    if (block->size < size) {
        void *data = NULL;
        free(block->data);
        block->data = NULL;
        block->size = 0;
        if (posix_memalign(&data, 4096, (size_t)size) != 0) {
            sdbr_onednn_give(&block->busy);
            return NULL;
        }
        block->data = data;
        block->size = size;
    }
    return block;
}

/* Gives back the memory of blocks that nobody uses; returns the bytes that are left. */
static int64_t sdbr_onednn_trim(int all) {
    int64_t left = 0;
    for (sdbr_onednn_block *b = __atomic_load_n(&sdbr_onednn_blocks, __ATOMIC_ACQUIRE); b != NULL; b = b->next) {
        if (all && sdbr_onednn_take(&b->busy)) {
            free(b->data);
            b->data = NULL;
            b->size = 0;
            sdbr_onednn_give(&b->busy);
        }
        left += b->size;
    }
    return left;
}

/* --- sets ------------------------------------------------------------------------------------ */

static void sdbr_onednn_free_set(const sdbr_onednn_sequence *s, sdbr_onednn_set *set) {
    for (int i = 0; set->arguments != NULL && i < s->n_arguments; ++i)
        if (set->arguments[i].memory != NULL)
            s->library->memory_destroy(set->arguments[i].memory);
    if (set->stream != NULL)
        s->library->stream_destroy(set->stream);
    free(set->arguments);
    free(set);
}

static sdbr_onednn_set *sdbr_onednn_new_set(const sdbr_onednn_sequence *s, int *status) {
    sdbr_onednn_set *set = calloc(1, sizeof *set);
    *status = SDBR_ONEDNN_NO_MEMORY;
    if (set == NULL)
        return NULL;
    set->busy = 1;
    set->arguments = calloc((size_t)s->n_arguments, sizeof *set->arguments);
    if (set->arguments != NULL) {
        int failed = s->library->stream_create(&set->stream, s->library->engine, 1);
        for (int i = 0; i < s->n_arguments && !failed; ++i) {
            set->arguments[i].key = s->keys[i];
            failed = s->library->memory_create(&set->arguments[i].memory, s->layouts[i], s->library->engine, NULL);
        }
        if (!failed) {
            *status = SDBR_OK;
            return set;
        }
        *status = SDBR_ONEDNN_STATUS + failed;
    }
    sdbr_onednn_free_set(s, set);
    return NULL;
}

static sdbr_onednn_set *sdbr_onednn_take_set(sdbr_onednn_sequence *s, int *status) {
    sdbr_onednn_set *set = __atomic_load_n(&s->sets, __ATOMIC_ACQUIRE);
    *status = SDBR_OK;
    while (set != NULL && !sdbr_onednn_take(&set->busy))
        set = set->next;
    if (set != NULL)
        return set;
    set = sdbr_onednn_new_set(s, status);
    if (set == NULL)
        return NULL;
    set->next = __atomic_load_n(&s->sets, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(&s->sets, &set->next, set, 0, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE)) {
    }
    return set;
}

/* Only while no run is inside. */
static void sdbr_onednn_drop_sets(sdbr_onednn_sequence *s) {
    sdbr_onednn_set *set = s->sets;
    s->sets = NULL;
    while (set != NULL) {
        sdbr_onednn_set *next = set->next;
        sdbr_onednn_free_set(s, set);
        set = next;
    }
}

/* --- a run ------------------------------------------------------------------------------------- */

static void sdbr_onednn_finish(const sdbr_onednn_sequence *s, char **operands, const char *scratch) {
    float *y = (float *)operands[s->y];
    if (s->sum >= 0) {
        const float *part = (const float *)(const void *)(scratch + s->sum);
        for (int64_t i = 0; i < s->outer * s->channels * s->inner; ++i)
            y[i] += part[i];
    }
    if (s->bias < 0 && !s->relu)
        return;
    const float *bias = s->bias < 0 ? NULL : (const float *)operands[s->bias];
    for (int64_t i = 0; i < s->outer; ++i) {
        for (int64_t c = 0; c < s->channels; ++c, y += s->inner) {
            const float shift = bias == NULL ? 0.0f : bias[c];
            if (bias != NULL)
                for (int64_t k = 0; k < s->inner; ++k)
                    y[k] += shift;
            if (s->relu)
                for (int64_t k = 0; k < s->inner; ++k)
                    y[k] = y[k] < 0.0f ? 0.0f : y[k];
        }
    }
}

static int sdbr_onednn_execute(sdbr_onednn_sequence *s, char **operands, sdbr_onednn_set *set, char *scratch) {
    const sdbr_onednn_library *library = s->library;
    sdbr_onednn_argument *arguments = set->arguments;
    int failed = 0;
    for (int i = 0; i < s->n_arguments && !failed; ++i) {
        const int64_t place = s->places[i];
        failed = library->memory_set_data_handle(arguments[i].memory, place < 0 ? operands[-1 - place] : scratch + place);
    }
    for (int i = 0; i < s->n_steps && !failed; ++i) {
        failed = library->primitive_execute(s->primitives[i], set->stream, s->counts[i], arguments);
        arguments += s->counts[i];
    }
    if (!failed)
        failed = library->stream_wait(set->stream);
    return failed ? SDBR_ONEDNN_STATUS + failed : SDBR_OK;
}

static int sdbr_onednn_run(sdbr_foreign *foreign, char **operands) {
    sdbr_onednn_sequence *s = (sdbr_onednn_sequence *)foreign;
    const sdbr_onednn_library *library = s->library;
    sdbr_onednn_block *block = NULL;
    int status = SDBR_OK;
    if (s->threads > 1 && s->generation != sdbr_onednn_generation && (status = s->renew(s)) != SDBR_OK)
        return status;
    sdbr_onednn_set *set = sdbr_onednn_take_set(s, &status);
    if (set == NULL)
        return status;
    if (s->scratch > 0 && (block = sdbr_onednn_take_block(s->scratch)) == NULL) {
        sdbr_onednn_give(&set->busy);
        return SDBR_ONEDNN_NO_MEMORY;
    }
    /* The setting belongs to the thread that calls, which may be any. */
    const int before = library->get_max_threads == NULL ? s->threads : library->get_max_threads();
    if (before != s->threads)
        library->set_num_threads(s->threads);
    status = sdbr_onednn_execute(s, operands, set, block == NULL ? NULL : block->data);
    if (before != s->threads)
        library->set_num_threads(before);
    if (status == SDBR_OK && s->y >= 0)
        sdbr_onednn_finish(s, operands, block == NULL ? NULL : block->data);
    if (block != NULL)
        sdbr_onednn_give(&block->busy);
    sdbr_onednn_give(&set->busy);
    return status;
}

#endif
