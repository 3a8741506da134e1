/* Scratch memory by thread. */
#define _POSIX_C_SOURCE 200112L
#include <pthread.h>
#include <stdlib.h>

#include "runtime/workspace.h"

struct block {
    void *memory;
    size_t size;
};

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int have_key;

static void drop(void *value)
{
    struct block *block = value;
    free(block->memory);
    free(block);
}

static void make_key(void) { have_key = pthread_key_create(&key, drop) == 0; }

void *sdbr_workspace(size_t size)
{
    struct block *block;
    pthread_once(&once, make_key);
    if (!have_key)
        return NULL;
    block = pthread_getspecific(key);
    if (block == NULL) {
        block = calloc(1, sizeof *block);
        if (block == NULL)
            return NULL;
        if (pthread_setspecific(key, block) != 0) {
            free(block);
            return NULL;
        }
    }
    if (block->size < size) {
        free(block->memory);
        block->size = 0;
        if (posix_memalign(&block->memory, 64, size) != 0) {
            block->memory = NULL;
            return NULL;
        }
        block->size = size;
    }
    return block->memory;
}
