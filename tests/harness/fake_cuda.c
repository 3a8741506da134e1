/* A CUDA driver without a device: memory is that of the host, machine code a shared library, a graph the list of what
 * was launched while its stream recorded. Kernels run at once, with few threads. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dlfcn.h>

typedef void (*kernel)(const void *parameters, int64_t threads, int64_t teams);

typedef struct node {
    kernel run;
    void *parameters;
    unsigned teams;
    struct node *next;
} node;

typedef struct stream {
    int records;
    node *first, **last;
} stream;

enum { NO_DEVICE = 100, BAD_VALUE = 1, NOT_FOUND = 500, BAD_IMAGE = 200, OUT_OF_MEMORY = 2, STILL_RECORDS = 900, NO_CONTEXT = 201 };
#define NEEDS_CONTEXT \
    if (!depth) \
    return NO_CONTEXT

/* What tests look at and set. */
int64_t fake_threads = 7, fake_teams = 3, fake_devices = 1, fake_bytes, fake_launches, fake_graph_launches;
int64_t fake_modules, fake_streams, fake_graphs, fake_most_bytes = INT64_MAX;

int cuInit(unsigned flags) { return flags ? BAD_VALUE : fake_devices ? 0 : NO_DEVICE; }
int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
int cuDeviceGetCount(int *count) { return *count = (int)fake_devices, 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetName(char *name, int length, int device) { return snprintf(name, (size_t)length, "fake %d", device), 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    return *value = attribute == 75 ? 9 : 0, 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = (void *)(intptr_t)(device + 1), 0; }

/* How many contexts were made current on this thread, and not given back. */
static __thread int depth;
int cuCtxPushCurrent_v2(void *context) { return context ? depth++, 0 : BAD_VALUE; }
int cuCtxPopCurrent_v2(void **context) { return *context = NULL, depth ? depth--, 0 : NO_CONTEXT; }

int cuGetErrorName(int status, const char **text) {
    return *text = status == NO_DEVICE       ? "CUDA_ERROR_NO_DEVICE"
                   : status == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                   : status == NOT_FOUND     ? "CUDA_ERROR_NOT_FOUND"
                   : status == BAD_IMAGE     ? "CUDA_ERROR_INVALID_IMAGE"
                   : status == NO_CONTEXT    ? "CUDA_ERROR_INVALID_CONTEXT"
                                             : NULL,
           0;
}
int cuGetErrorString(int status, const char **text) { return (void)status, *text = "in words", 0; }

/* The image is the path of the library. */
int cuModuleLoadData(void **module, const char *image) {
    NEEDS_CONTEXT;
    *module = dlopen(image, RTLD_NOW | RTLD_LOCAL);
    fake_modules += *module != NULL;
    return *module ? 0 : BAD_IMAGE;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
    return (*function = dlsym(module, name)) ? 0 : NOT_FOUND;
}
int cuModuleUnload(void *module) {
    NEEDS_CONTEXT;
    return fake_modules--, dlclose(module);
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    NEEDS_CONTEXT;
    if (fake_bytes + (int64_t)bytes > fake_most_bytes)
        return OUT_OF_MEMORY;
    size_t *made;
    if (posix_memalign((void **)&made, 256, bytes + 256))
        return OUT_OF_MEMORY;
    made[0] = bytes;
    fake_bytes += (int64_t)bytes;
    memset(made + 32, 0xff, bytes); /* NaN */
    return *address = (uint64_t)(uintptr_t)(made + 32), 0;
}
int cuMemFree_v2(uint64_t address) {
    NEEDS_CONTEXT;
    size_t *made = (size_t *)(uintptr_t)address - 32;
    fake_bytes -= (int64_t)made[0];
    return free(made), 0;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, stream *s) {
    NEEDS_CONTEXT;
    return s->records ? STILL_RECORDS : (memcpy((void *)(uintptr_t)to, from, bytes), 0);
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, stream *s) {
    NEEDS_CONTEXT;
    return s->records ? STILL_RECORDS : (memcpy(to, (void *)(uintptr_t)from, bytes), 0);
}

int cuStreamCreate(stream **s, unsigned flags) {
    NEEDS_CONTEXT;
    (void)flags;
    fake_streams++;
    return (*s = calloc(1, sizeof **s)) ? 0 : OUT_OF_MEMORY;
}
int cuStreamSynchronize(stream *s) {
    NEEDS_CONTEXT;
    return s->records ? STILL_RECORDS : 0;
}
int cuStreamDestroy_v2(stream *s) {
    NEEDS_CONTEXT;
    return fake_streams--, free(s), 0;
}

static void run(kernel k, const void *parameters, unsigned teams) {
    k(parameters, fake_threads, teams < fake_teams ? teams : fake_teams);
    fake_launches++;
}

int cuLaunchKernel(kernel k, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz,
                   unsigned shared, stream *s, void **parameters, void **extra) {
    NEEDS_CONTEXT;
    if (!x || y != 1 || z != 1 || !threads || threads > 1024 || ty != 1 || tz != 1 || shared || parameters)
        return BAD_VALUE;
    if (extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4])
        return BAD_VALUE;
    const size_t size = *(const size_t *)extra[3];
    if (size > 4096) /* what every driver takes */
        return BAD_VALUE;
    if (!s->records) {
        run(k, extra[1], x);
        return 0;
    }
    node *made = calloc(1, sizeof *made);
    made->run = k;
    made->teams = x;
    made->parameters = memcpy(malloc(size), extra[1], size);
    *s->last = made;
    s->last = &made->next;
    return 0;
}

int cuStreamBeginCapture_v2(stream *s, int mode) {
    NEEDS_CONTEXT;
    (void)mode;
    if (s->records)
        return STILL_RECORDS;
    s->records = 1;
    s->first = NULL;
    s->last = &s->first;
    return 0;
}
int cuStreamEndCapture(stream *s, node **graph) {
    node *empty = calloc(1, sizeof *empty);
    empty->next = s->first;
    s->records = 0;
    return *graph = empty, 0;
}
/* The graph itself becomes the executable one. */
int cuGraphInstantiateWithFlags(node **executable, node *graph, unsigned long long flags) {
    node *made = calloc(1, sizeof *made);
    made->next = graph->next;
    graph->next = NULL;
    fake_graphs++;
    return *executable = made, flags ? BAD_VALUE : 0;
}
int cuGraphDestroy(node *graph) { return free(graph), 0; }
int cuGraphLaunch(node *graph, stream *s) {
    NEEDS_CONTEXT;
    if (s->records)
        return STILL_RECORDS;
    fake_graph_launches++;
    for (node *n = graph->next; n; n = n->next)
        run(n->run, n->parameters, n->teams);
    return 0;
}
int cuGraphExecDestroy(node *graph) {
    NEEDS_CONTEXT;
    for (node *n = graph; n;) {
        node *next = n->next;
        free(n->parameters);
        free(n);
        n = next;
    }
    return fake_graphs--, 0;
}
