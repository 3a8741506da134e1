/* A CUDA driver without a device: memory is that of the host, machine code a shared library, a graph what was launched
 * while streams recorded. Kernels run at once, with few threads. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dlfcn.h>

#include "fake_graphs.h"

/* What a stream has still to do: a graph, a kernel of its own, to wait for another stream, or to note the time. */
typedef struct stream stream;
typedef struct event {
    stream *of;
    int64_t after; /* so many entries of that stream */
    int has_times;
    int64_t clock;   /* when it was reached */
    int64_t capture; /* recorded while a stream records: in which capture, and after what */
    nodes place;
} event;
typedef struct entry {
    nodes *graph;
    node *single;
    event before;
    int64_t *stamp;
    struct { /* what is copied from pinned memory; from nowhere: bytes that are set */
        void *to;
        const void *from;
        size_t bytes;
        unsigned char value;
    } copy;
} entry;

struct stream {
    void *handle;
    capture *records;
    nodes place; /* what the next one that is recorded comes after */
    entry *entries;
    int64_t done, count;
    stream *next;
};

/* Streams by handle: there are some that somebody else has made, and 0. */
static stream *streams;
static stream *of(void *handle) {
    for (stream *s = streams; s; s = s->next)
        if (s->handle == handle)
            return s;
    stream *made = calloc(1, sizeof *made);
    made->handle = handle;
    made->next = streams;
    return streams = made;
}

/* The call of `fake_fails` that fails, counted down to 0, and what with; errors that lose the context stay. */
char fake_fails[64];
int64_t fake_fails_in, fake_fails_with, fake_lost;

static int failing(const char *name) {
    if (fake_lost)
        return (int)fake_lost;
    if (strcmp(name, fake_fails) || fake_fails_in <= 0 || --fake_fails_in)
        return 0;
    if (fake_fails_with == 214 || fake_fails_with == 700 || fake_fails_with == 709 || fake_fails_with == 719)
        fake_lost = fake_fails_with;
    return (int)fake_fails_with;
}
#define MAY_FAIL                               \
    do {                                       \
        const int status = failing(__func__);  \
        if (status)                            \
            return status;                     \
    } while (0)

enum { NO_DEVICE = 100, BAD_VALUE = 1, NOT_FOUND = 500, BAD_IMAGE = 200, OUT_OF_MEMORY = 2, NO_CONTEXT = 201, NOT_READY = 600 };
enum { STILL_RECORDS = 900, BROKEN = 901, MERGED = 902, UNMATCHED = 903, UNJOINED = 904, ISOLATED = 905, IS_RECORDED = 907 };
/* What gives back does so, whatever it says. */
#define GIVES_BACK \
    if (!depth)    \
    return NO_CONTEXT
#define NEEDS_CONTEXT      \
    if (!depth)            \
        return NO_CONTEXT; \
    MAY_FAIL

/* What tests look at and set. */
int64_t fake_devices = 1, fake_bytes, fake_graph_launches, fake_major = 9, fake_version = 13000;
int64_t fake_modules, fake_streams, fake_pinned, fake_graphs, fake_most_bytes = INT64_MAX, fake_late, fake_waits, fake_orders, fake_events;
int64_t fake_programmatic; /* launches that may begin early */

static void do_now(entry one) {
    if (one.stamp)
        *one.stamp = fake_clock;
    if (one.graph)
        run_graph(one.graph);
    if (one.copy.bytes && one.copy.from)
        memcpy(one.copy.to, one.copy.from, one.copy.bytes);
    else if (one.copy.bytes)
        memset(one.copy.to, one.copy.value, one.copy.bytes);
    if (one.single) {
        start(one.single);
        fake_clock += fake_kernel_costs;
        free_node(one.single);
    }
}

/* Do what a stream has, up to an entry, and first what that waits for. */
static void catch_up(stream *s, int64_t until) {
    while (s->done < until) {
        const entry next = s->entries[s->done++];
        if (next.before.of)
            catch_up(next.before.of, next.before.after);
        do_now(next);
    }
}
static void catch_up_all(void) {
    for (stream *s = streams; s; s = s->next)
        catch_up(s, s->count);
}
static void add(stream *s, entry made) {
    if (!fake_late) {
        catch_up_all();
        do_now(made);
        return;
    }
    s->entries = realloc(s->entries, (size_t)(s->count + 1) * sizeof made);
    s->entries[s->count++] = made;
}

int cuInit(unsigned flags) {
    const char *devices = getenv("FAKE_CUDA_DEVICES");
    if (devices)
        fake_devices = atoi(devices);
    MAY_FAIL;
    return flags ? BAD_VALUE : fake_devices ? 0 : NO_DEVICE;
}
int cuDriverGetVersion(int *version) {
    MAY_FAIL;
    return *version = (int)fake_version, 0;
}
int cuDeviceGetCount(int *count) {
    MAY_FAIL;
    return *count = (int)fake_devices, 0;
}
int cuDeviceGet(int *device, int ordinal) {
    MAY_FAIL;
    return *device = ordinal, 0;
}
int cuDeviceGetName(char *name, int length, int device) {
    MAY_FAIL;
    return snprintf(name, (size_t)length, "fake %d", device), 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    MAY_FAIL;
    (void)device;
    return *value = attribute == 75 ? (int)fake_major : 0, 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
    MAY_FAIL;
    return *context = (void *)(intptr_t)(device + 1), 0;
}

/* How many contexts were made current on this thread, and not given back. */
static __thread int depth;
int cuCtxPushCurrent_v2(void *context) {
    MAY_FAIL;
    return context ? depth++, 0 : BAD_VALUE;
}
int cuCtxPopCurrent_v2(void **context) { return *context = NULL, depth ? depth--, failing(__func__) : NO_CONTEXT; }
int cuProfilerStart(void) { return 0; }
int cuProfilerStop(void) { return 0; }
int cuCtxSynchronize(void) {
    NEEDS_CONTEXT;
    int status = 0;
    for (stream *s = streams; s; s = s->next)
        if (s->records)
            status = STILL_RECORDS, s->records->is_broken = 1;
    return status ? status : (fake_waits++, catch_up_all(), 0);
}

static const struct {
    int status;
    const char *name;
} names[] = {
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
    {BAD_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
    {719, "CUDA_ERROR_LAUNCH_FAILED"},
    {STILL_RECORDS, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {BROKEN, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
    {UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
    {NO_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
};
int cuGetErrorName(int status, const char **text) {
    *text = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].status == status)
            *text = names[i].name;
    return 0;
}
int cuGetErrorString(int status, const char **text) { return (void)status, *text = "in words", 0; }

/* The image is the path of the library. */
int cuModuleLoadData(void **module, const char *image) {
    NEEDS_CONTEXT;
    *module = dlopen(image, RTLD_NOW | RTLD_LOCAL);
    if (!*module)
        return BAD_IMAGE;
    void (**begins)(void) = dlsym(*module, "sdbr_on_begin");
    if (begins)
        *begins = on_begin;
    return fake_modules++, 0;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
    MAY_FAIL;
    return (*function = dlsym(module, name)) ? 0 : NOT_FOUND;
}
int cuModuleUnload(void *module) {
    GIVES_BACK;
    for (stream *s = streams; s; s = s->next)
        if (s->done < s->count) /* something of it may still run */
            abort();
    return fake_modules--, dlclose(module), failing(__func__);
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
    GIVES_BACK;
    catch_up_all();
    size_t *made = (size_t *)(uintptr_t)address - 32;
    fake_bytes -= (int64_t)made[0];
    return free(made), failing(__func__);
}
/* Memory of the host that graphs may copy from. */
typedef struct pinned {
    char *address;
    size_t bytes;
    struct pinned *next;
} pinned;
static pinned *all_pinned;
static int is_pinned(const char *from, size_t bytes) {
    for (const pinned *p = all_pinned; p; p = p->next)
        if (p->address <= from && from + bytes <= p->address + p->bytes)
            return 1;
    return 0;
}
int cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    NEEDS_CONTEXT;
    fake_pinned++;
    if (flags)
        return BAD_VALUE;
    pinned *made = malloc(sizeof *made);
    *made = (pinned){malloc(bytes), bytes, all_pinned};
    all_pinned = made;
    return *address = made->address, 0;
}
int cuMemFreeHost(void *address) {
    GIVES_BACK;
    catch_up_all();
    for (pinned **at = &all_pinned; *at; at = &(*at)->next)
        if ((*at)->address == address) {
            pinned *gone = *at;
            *at = gone->next;
            free(gone);
            break;
        }
    return fake_pinned--, free(address), failing(__func__);
}
typedef struct copied {
    void *to;
    const void *from;
    size_t bytes;
} copied;
static void run_copy(const void *parameters, int64_t threads, int64_t teams) {
    const copied *c = parameters;
    (void)threads, (void)teams;
    memcpy(c->to, c->from, c->bytes);
}
static int launch(stream *s, node given, const void *parameters, size_t size);
static int copy(stream *s, void *to, const void *from, size_t bytes, int may_record) {
    if (!s->records)
        return catch_up(s, s->count), memcpy(to, from, bytes), 0;
    if (!may_record)
        return STILL_RECORDS;
    const copied made = {to, from, bytes};
    return launch(s, (node){.run = run_copy, .teams = 1, .is_foreign = 1, .is_copy = 1}, &made, sizeof made);
}
/* What is pinned is read when the stream comes to it; all else before this is back. */
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *handle) {
    NEEDS_CONTEXT;
    stream *s = of(handle);
    if (!s->records && is_pinned(from, bytes))
        return add(s, (entry){.copy = {(void *)(uintptr_t)to, from, bytes, 0}}), 0;
    return copy(s, (void *)(uintptr_t)to, from, bytes, is_pinned(from, bytes));
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *handle) {
    NEEDS_CONTEXT;
    return copy(of(handle), (void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes, 1);
}
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void *handle) {
    NEEDS_CONTEXT;
    stream *s = of(handle);
    return s->records ? STILL_RECORDS : (add(s, (entry){.copy = {(void *)(uintptr_t)to, NULL, bytes, value}}), 0);
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *handle) {
    NEEDS_CONTEXT;
    stream *s = of(handle);
    return s->records ? STILL_RECORDS : (catch_up(s, s->count), memcpy(to, (void *)(uintptr_t)from, bytes), 0);
}

int cuStreamCreate(void **handle, unsigned flags) {
    NEEDS_CONTEXT;
    (void)flags;
    fake_streams++;
    return (*handle = malloc(1)) ? 0 : OUT_OF_MEMORY;
}
int cuStreamSynchronize(void *handle) {
    NEEDS_CONTEXT;
    stream *s = of(handle);
    return s->records ? STILL_RECORDS : (fake_waits++, catch_up(s, s->count), 0);
}
int cuStreamDestroy_v2(void *handle) {
    GIVES_BACK;
    catch_up_all();
    for (stream **at = &streams; *at; at = &(*at)->next)
        if ((*at)->handle == handle) {
            stream *gone = *at;
            *at = gone->next;
            free(gone->entries);
            free(gone);
            break;
        }
    return fake_streams--, free(handle), failing(__func__);
}

int cuEventCreate(event **made, unsigned flags) {
    NEEDS_CONTEXT;
    if (flags & ~2u)
        return BAD_VALUE;
    fake_events++;
    *made = calloc(1, sizeof **made);
    (*made)->has_times = !flags;
    return 0;
}
int cuEventRecord(event *made, void *handle) {
    NEEDS_CONTEXT;
    made->of = of(handle);
    clear(&made->place);
    made->capture = made->of->records ? made->of->records->number : 0;
    if (made->capture)
        return made->has_times ? STILL_RECORDS : (append_all(&made->place, &made->of->place), 0);
    if (made->has_times)
        add(made->of, (entry){.stamp = &made->clock});
    made->after = made->of->count;
    return 0;
}
int cuEventQuery(const event *made) {
    MAY_FAIL;
    return made->capture ? IS_RECORDED : !made->of || made->of->done >= made->after ? 0 : NOT_READY;
}
int cuEventSynchronize(const event *made) {
    NEEDS_CONTEXT;
    if (made->capture)
        return IS_RECORDED;
    return made->of ? (catch_up(made->of, made->after), 0) : BAD_VALUE;
}
int cuEventElapsedTime(float *milliseconds, const event *from, const event *to) {
    MAY_FAIL;
    if (!from->has_times || !to->has_times || !from->of || !to->of)
        return BAD_VALUE;
    if (from->of->done < from->after || to->of->done < to->after)
        return NOT_READY;
    return *milliseconds = (float)(to->clock - from->clock), 0;
}
int cuEventDestroy_v2(event *made) {
    GIVES_BACK;
    if (made->has_times)
        catch_up_all();
    clear(&made->place);
    return fake_events--, free(made), failing(__func__);
}
/* What waits for an event of a capture becomes part of it. */
static int join(stream *s, const event *before) {
    capture *of_event = NULL;
    for (stream *other = streams; other; other = other->next)
        if (other->records && other->records->number == before->capture)
            of_event = other->records;
    if (!of_event)
        return IS_RECORDED;
    if (s->records && s->records != of_event)
        return MERGED;
    if (!s->records && s->done < s->count) /* what it has before could not be told from what it records */
        catch_up(s, s->count);
    s->records = of_event;
    return append_all(&s->place, &before->place), 0;
}
int cuStreamWaitEvent(void *handle, const event *before, unsigned flags) {
    NEEDS_CONTEXT;
    if (flags || !before->of)
        return BAD_VALUE;
    fake_orders++;
    if (before->capture)
        return join(of(handle), before);
    if (of(handle)->records)
        return ISOLATED;
    return add(of(handle), (entry){.before = *before}), 0;
}

static int launch(stream *s, node given, const void *parameters, size_t size) {
    if (s->records && s->records->is_broken)
        return BROKEN;
    node *made = malloc(sizeof *made);
    *made = given;
    made->parameters = memcpy(malloc(size), parameters, size);
    if (!s->records) {
        add(s, (entry){.single = made});
        return 0;
    }
    made->number = s->records->all.count;
    fake_nodes++;
    append_all(&made->before, &s->place);
    append(&s->records->all, made);
    clear(&s->place);
    append(&s->place, made);
    return 0;
}

/* For libraries that launch kernels of their own, with memory for them alone; without one: whether there is a context. */
static int submit(void *handle, kernel k, const void *parameters, size_t size, const void *alone, size_t bytes) {
    NEEDS_CONTEXT;
    const node made = {.run = k, .teams = 1, .is_foreign = 1, .from = (uintptr_t)alone, .to = (uintptr_t)alone + bytes};
    return k ? launch(of(handle), made, parameters, size) : 0;
}
struct {
    int (*submit)(void *, kernel, const void *, size_t, const void *, size_t);
    int64_t *clock;
} fake_services = {submit, &fake_clock};

static int is_launch(unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz, unsigned shared,
                     void **parameters, void **extra) {
    if (!x || y != 1 || z != 1 || !threads || threads > 1024 || ty != 1 || tz != 1 || shared || parameters)
        return 0;
    if (extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4])
        return 0;
    return *(const size_t *)extra[3] <= 4096; /* what every driver takes */
}
int cuLaunchKernel(kernel k, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz,
                   unsigned shared, void *handle, void **parameters, void **extra) {
    NEEDS_CONTEXT;
    if (!is_launch(x, y, z, threads, ty, tz, shared, parameters, extra))
        return BAD_VALUE;
    return launch(of(handle), (node){.run = k, .teams = x}, extra[1], *(const size_t *)extra[3]);
}

/* The only attribute that is taken: programmatic stream serialization. */
typedef struct launch_attribute {
    int id;
    char padding[4];
    union {
        char bytes[64];
        int allowed;
    } value;
} launch_attribute;
typedef struct launch_config {
    unsigned grid[3], block[3], shared;
    void *handle;
    const launch_attribute *attributes;
    unsigned count;
} launch_config;
int cuLaunchKernelEx(const launch_config *c, kernel k, void **parameters, void **extra) {
    NEEDS_CONTEXT;
    if (!is_launch(c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->shared, parameters, extra))
        return BAD_VALUE;
    stream *s = of(c->handle);
    int is_early = 0;
    for (unsigned n = 0; n < c->count; n++) {
        if (c->attributes[n].id != 6)
            return BAD_VALUE;
        is_early = c->attributes[n].value.allowed;
    }
    /* Nothing else than one kernel of the package has to be before it; the first of a graph has nobody to wait for. */
    const int64_t before = s->records ? s->place.count : 0;
    if (is_early && (fake_major < 9 || before > 1 || (before && s->place.at[0]->is_foreign)))
        return BAD_VALUE;
    fake_programmatic += is_early;
    return launch(s, (node){.run = k, .teams = c->grid[0], .is_early = is_early && before}, extra[1],
                  *(const size_t *)extra[3]);
}

int cuStreamBeginCapture_v2(void *handle, int mode) {
    NEEDS_CONTEXT;
    (void)mode;
    if (!handle) /* the default one cannot record */
        return BAD_VALUE;
    static int64_t captures;
    stream *s = of(handle);
    if (s->records)
        return STILL_RECORDS;
    s->records = calloc(1, sizeof *s->records);
    s->records->number = ++captures;
    s->records->origin = handle;
    return 0;
}
/* Recording ends for all streams that are part of it, whatever this says. */
int cuStreamEndCapture(void *handle, nodes **graph) {
    int status = failing(__func__);
    stream *s = of(handle);
    capture *ends = s->records;
    *graph = NULL;
    if (!ends)
        return BAD_VALUE;
    status = status || !ends->is_broken ? status : BROKEN;
    if (ends->origin != handle)
        return UNMATCHED;
    for (stream *other = streams; other; other = other->next) {
        if (other->records != ends)
            continue;
        for (int64_t k = 0; k < other->place.count; k++) {
            int is_joined = 0;
            for (int64_t j = 0; j < s->place.count; j++)
                is_joined |= s->place.at[j] == other->place.at[k] || comes_after(s->place.at[j], other->place.at[k]);
            status = status || is_joined ? status : UNJOINED;
        }
    }
    for (stream *other = streams; other; other = other->next)
        if (other->records == ends) {
            other->records = NULL;
            clear(&other->place);
        }
    if (status)
        free_nodes(&ends->all);
    else
        *(*graph = malloc(sizeof **graph)) = ends->all;
    free(ends);
    return status;
}
int cuGraphGetNodes(const nodes *graph, void **found, size_t *count) {
    MAY_FAIL;
    return *count = (size_t)graph->count, found ? BAD_VALUE : 0;
}
/* The graph itself becomes the executable one. */
int cuGraphInstantiateWithFlags(nodes **executable, nodes *graph, unsigned long long flags) {
    MAY_FAIL;
    if (flags || is_shared(graph))
        return BAD_VALUE;
    *executable = malloc(sizeof **executable);
    **executable = *graph;
    *graph = (nodes){NULL, 0};
    make_after(*executable);
    return fake_graphs++, 0;
}
int cuGraphDestroy(nodes *graph) {
    if (graph)
        free_nodes(graph);
    free(graph);
    return failing(__func__);
}
int cuGraphLaunch(nodes *graph, void *handle) {
    NEEDS_CONTEXT;
    stream *s = of(handle);
    if (s->records)
        return STILL_RECORDS;
    fake_graph_launches++;
    return add(s, (entry){.graph = graph}), 0;
}
/* One that runs is freed when it has. */
int cuGraphExecDestroy(nodes *graph) {
    GIVES_BACK;
    catch_up_all();
    free_nodes(graph);
    free(graph);
    return fake_graphs--, failing(__func__);
}
