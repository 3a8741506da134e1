/* cuBLASLt without a device: the part of it that the package uses, over memory of the host, on the driver in
 * fake_cuda.c. Descriptors are looked at when a product is asked for, as in the library: they take anything whose size
 * is right. Names and numbers are those of cublasLt.h. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS, NOT_INITIALIZED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum { R_32F, R_64F, COMPUTE_32F = 68, COMPUTE_64F = 70, COMPUTE_32F_FAST_TF32 = 77, ORDER_COL = 0 };
enum { DEFAULT = 1, RELU = 2, BIAS = 4, DRELU = 8 | 128, AUX = 128, BGRADB = 512 };

typedef struct layout {
    uint64_t rows, columns;
    int64_t ld, step;
    int type, order, count;
} layout;
typedef struct operation {
    int compute, scale, transposed[2];
    uint32_t epilogue;
    const char *bias;
    char *aux;
    int64_t aux_ld;
} operation;
typedef struct preference {
    uint64_t workspace;
    uint32_t alignment[4];
} preference;
typedef struct algorithm {
    uint64_t magic, id, problem, workspace;
    uint32_t alignment[4];
    uint64_t unused[2];
} algorithm;
typedef struct heuristic {
    algorithm words;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
} heuristic;

/* Of fake_cuda.c: runs or records, on a stream; what events read. */
typedef void (*job_function)(const void *parameters, int64_t threads, int64_t teams);
typedef struct services {
    int (*submit)(void *stream, job_function run, const void *parameters, size_t bytes, const void *alone, size_t n);
    int64_t *clock;
} services;
services *fake_driver;

/* What tests look at and set. Refused are epilogues that have one of these bits; swallows: the algorithms, a bit each, whose
 * relu makes zeros of NaN; costs are those of algorithms. */
int64_t fake_handles, fake_descriptors, fake_asked, fake_matmuls, fake_refused, fake_fails, fake_algorithms = 3, fake_swallows;
int64_t fake_rounds, fake_compute, fake_epilogue, fake_ran[8], fake_costs[8] = {3, 2, 1, 4, 4, 4, 4, 4};
enum { MAGIC = 0x1dea, MOST = 4 };
static const uint64_t workspaces[MOST] = {0, 4096, 1 << 16, 64u << 20};

size_t cublasLtGetVersion(void) { return 130100; }
const char *cublasLtGetStatusName(int status) {
    return status == NOT_INITIALIZED    ? "CUBLAS_STATUS_NOT_INITIALIZED"
           : status == INVALID_VALUE    ? "CUBLAS_STATUS_INVALID_VALUE"
           : status == EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED"
           : status == NOT_SUPPORTED    ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                        : "unrecognized status";
}
int cublasLtCreate(void **handle) {
    if (!fake_driver || fake_driver->submit(NULL, NULL, NULL, 0, NULL, 0)) /* no device is current */
        return NOT_INITIALIZED;
    fake_handles++;
    return *handle = calloc(1, 8), SUCCESS;
}
int cublasLtDestroy(void *handle) { return free(handle), fake_handles--, SUCCESS; }

static void *described(size_t bytes) { return fake_descriptors++, calloc(1, bytes); }
static int forgotten(void *one) { return free(one), fake_descriptors--, SUCCESS; }
static int put(void *to, size_t wanted, const void *value, size_t bytes) {
    return value && bytes == wanted ? (memcpy(to, value, bytes), SUCCESS) : INVALID_VALUE;
}
#define PUT(field) put(&(field), sizeof(field), value, bytes)

int cublasLtMatmulDescCreate(operation **made, int compute, int scale) {
    *made = described(sizeof **made);
    (*made)->compute = compute;
    (*made)->scale = scale;
    (*made)->epilogue = DEFAULT;
    return SUCCESS;
}
int cublasLtMatmulDescDestroy(operation *one) { return forgotten(one); }
int cublasLtMatmulDescSetAttribute(operation *of, int attribute, const void *value, size_t bytes) {
    switch (attribute) {
    case 3: case 4: return PUT(of->transposed[attribute - 3]);
    case 7: return PUT(of->epilogue);
    case 8: return PUT(of->bias);
    case 11: return PUT(of->aux);
    case 12: return PUT(of->aux_ld);
    default: return INVALID_VALUE;
    }
}
int cublasLtMatrixLayoutCreate(layout **made, int type, uint64_t rows, uint64_t columns, int64_t ld) {
    *made = described(sizeof **made);
    **made = (layout){rows, columns, ld, 0, type, ORDER_COL, 1};
    return SUCCESS;
}
int cublasLtMatrixLayoutDestroy(layout *one) { return forgotten(one); }
int cublasLtMatrixLayoutSetAttribute(layout *of, int attribute, const void *value, size_t bytes) {
    return attribute == 1 ? PUT(of->order) : attribute == 5 ? PUT(of->count) : attribute == 6 ? PUT(of->step) : INVALID_VALUE;
}
int cublasLtMatmulPreferenceCreate(preference **made) {
    *made = described(sizeof **made);
    **made = (preference){0, {256, 256, 256, 256}};
    return SUCCESS;
}
int cublasLtMatmulPreferenceDestroy(preference *one) { return forgotten(one); }
int cublasLtMatmulPreferenceSetAttribute(preference *of, int attribute, const void *value, size_t bytes) {
    return attribute == 1 ? PUT(of->workspace)
           : attribute >= 5 && attribute <= 8 ? PUT(of->alignment[attribute - 5])
                                              : INVALID_VALUE;
}

static int64_t size_of(int type) { return type == R_64F ? 8 : 4; }

static int is_matrix(const layout *x, const layout *d) {
    return x->rows && x->columns && x->ld >= (int64_t)x->rows && x->order == ORDER_COL && x->type == d->type &&
           x->count == d->count && x->count > 0 &&
           (x->count == 1 || x->step >= x->ld * (int64_t)(x->columns - 1) + (int64_t)x->rows);
}

/* Whether it is a product, and one that is done here. */
static int refuses(const void *handle, const operation *op, const layout *a, const layout *b, const layout *c, const layout *d) {
    if (!handle)
        return NOT_INITIALIZED;
    if (!op || !a || !b || !c || !d || !is_matrix(a, d) || !is_matrix(b, d) || !is_matrix(c, d) || !is_matrix(d, d))
        return INVALID_VALUE;
    const uint64_t n = op->transposed[0] ? a->columns : a->rows, depth = op->transposed[0] ? a->rows : a->columns;
    const uint64_t m = op->transposed[1] ? b->rows : b->columns, other = op->transposed[1] ? b->columns : b->rows;
    if (op->transposed[0] >> 1 || op->transposed[1] >> 1 || depth != other || d->rows != n || d->columns != m ||
        c->rows != n || c->columns != m || c->ld != d->ld)
        return INVALID_VALUE;
    const int is_double = d->type == R_64F;
    if (op->scale != d->type ||
        (is_double ? op->compute != COMPUTE_64F : op->compute != COMPUTE_32F && op->compute != COMPUTE_32F_FAST_TF32))
        return NOT_SUPPORTED;
    switch (op->epilogue) {
    case DEFAULT: case RELU: break;
    case BIAS: case RELU | BIAS: case BGRADB: case RELU | BIAS | AUX: case RELU | AUX: case DRELU: break;
    default: return NOT_SUPPORTED;
    }
    if ((op->epilogue & fake_refused) || (d->count > 1 && op->epilogue != DEFAULT))
        return NOT_SUPPORTED;
    if ((op->epilogue & (BIAS | BGRADB)) && (!op->bias || (uintptr_t)op->bias % (size_t)size_of(d->type)))
        return INVALID_VALUE;
    if (!(op->epilogue & (BIAS | BGRADB)) && op->bias) /* as on an H200 */
        return INVALID_VALUE;
    if ((op->epilogue & AUX) && (!op->aux || (uintptr_t)op->aux % 16 || op->aux_ld % 128 || op->aux_ld < (int64_t)d->rows))
        return INVALID_VALUE;
    return SUCCESS;
}

static uint64_t problem_of(const operation *op, const layout *a, const layout *b, const layout *d) {
    const uint64_t all[] = {(uint64_t)op->compute, op->epilogue, (uint64_t)op->transposed[0], (uint64_t)op->transposed[1],
                            a->rows, a->columns, b->rows, b->columns, d->rows, (uint64_t)d->count, (uint64_t)d->type};
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        h = (h ^ all[i]) * 1099511628211u;
    return h;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, const operation *op, const layout *a, const layout *b, const layout *c,
                                   const layout *d, const preference *wanted, int most, heuristic *found, int *count) {
    *count = 0;
    fake_asked++;
    const int status = refuses(handle, op, a, b, c, d);
    if (status)
        return status;
    if (most <= 0 || !wanted)
        return INVALID_VALUE;
    for (uint64_t id = 0; id < (uint64_t)fake_algorithms && id < MOST && *count < most; id++) {
        if (workspaces[id] > wanted->workspace)
            continue;
        heuristic *one = found + (*count)++;
        *one = (heuristic){{MAGIC, id, problem_of(op, a, b, d), workspaces[id], {0}, {0}}, workspaces[id], SUCCESS, 1, {0}};
        memcpy(one->words.alignment, wanted->alignment, sizeof wanted->alignment);
    }
    return *count ? SUCCESS : NOT_SUPPORTED;
}

int cublasLtMatmulAlgoCheck(void *handle, const operation *op, const layout *a, const layout *b, const layout *c,
                            const layout *d, const algorithm *words, heuristic *result) {
    const int status = refuses(handle, op, a, b, c, d);
    if (status)
        return status;
    if (words->magic != MAGIC || words->id >= MOST || words->problem != problem_of(op, a, b, d))
        return INVALID_VALUE;
    return result->workspace = words->workspace, result->state = SUCCESS;
}

typedef struct job {
    operation op;
    layout a, b, d;
    double alpha, beta;
    const char *at_a, *at_b, *at_c;
    char *at_d, *workspace;
    algorithm words;
} job;

/* Where `fake_rounds` is set, products that may use TF32 keep 10 bits behind the first one of each factor. */
static float rounded_f4(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits & 0x7f800000) == 0x7f800000 ? bits : (bits + 0xfff + (bits >> 13 & 1)) & ~(uint32_t)0x1fff;
    memcpy(&x, &bits, sizeof bits);
    return x;
}
static double rounded_f8(double x) { return x; }

#define ELEMENT(x, T, i, j, flag) x[(flag) ? (int64_t)(j) + (int64_t)(i) * ld_##x : (int64_t)(i) + (int64_t)(j) * ld_##x]
#define MATMUL(name, T, rounded) \
    static void name(const job *p, int64_t which) { \
        const operation *op = &p->op; \
        const T *a = (const T *)p->at_a + which * p->a.step, *b = (const T *)p->at_b + which * p->b.step; \
        const T *c = (const T *)p->at_c + which * p->d.step; \
        T *d = (T *)p->at_d + which * p->d.step, *bias = (T *)op->bias; \
        const int64_t ld_a = p->a.ld, ld_b = p->b.ld, rounds = fake_rounds && op->compute == COMPUTE_32F_FAST_TF32; \
        const uint64_t depth = op->transposed[0] ? p->a.rows : p->a.columns; \
        for (uint64_t j = 0; j < p->d.columns; j++) { \
            for (uint64_t i = 0; i < p->d.rows; i++) { \
                T sum = 0; \
                for (uint64_t k = 0; k < depth; k++) { \
                    const T x = ELEMENT(a, T, i, k, op->transposed[0]), y = ELEMENT(b, T, k, j, op->transposed[1]); \
                    sum += rounds ? rounded(x) * rounded(y) : x * y; \
                } \
                T v = (T)p->alpha * sum; \
                const int64_t at = (int64_t)i + (int64_t)j * p->d.ld, bit = (int64_t)i + (int64_t)j * op->aux_ld; \
                if (p->beta != 0) /* what is there is not looked at otherwise */ \
                    v += (T)p->beta * c[at]; \
                if (op->epilogue & BIAS) \
                    v += bias[i]; \
                if (op->epilogue == DRELU) \
                    v = op->aux[bit / 8] >> bit % 8 & 1 ? v : 0; \
                else if (op->epilogue & AUX) \
                    op->aux[bit / 8] = (char)((op->aux[bit / 8] & ~(1 << bit % 8)) | (v > 0) << bit % 8); \
                d[at] = op->epilogue & RELU && (v < 0 || (v != v && fake_swallows >> p->words.id & 1)) ? 0 : v; \
            } \
            if (op->epilogue != BGRADB) \
                continue; \
            bias[j] = 0; \
            for (uint64_t k = 0; k < depth; k++) \
                bias[j] += ELEMENT(b, T, k, j, op->transposed[1]); \
        } \
    }
MATMUL(matmul_f4, float, rounded_f4)
MATMUL(matmul_f8, double, rounded_f8)

static void run(const void *parameters, int64_t threads, int64_t teams) {
    const job *p = parameters;
    (void)threads, (void)teams;
    if (p->words.workspace)
        memset(p->workspace, 0xff, p->words.workspace); /* whoever else has something there loses it */
    for (int64_t which = 0; which < p->d.count; which++)
        (p->d.type == R_64F ? matmul_f8 : matmul_f4)(p, which);
    fake_matmuls++;
    fake_ran[p->words.id]++;
    fake_compute = p->op.compute;
    fake_epilogue = p->op.epilogue;
    *fake_driver->clock += fake_costs[p->words.id];
}

int cublasLtMatmul(void *handle, const operation *op, const void *alpha, const char *at_a, const layout *a, const char *at_b,
                   const layout *b, const void *beta, const char *at_c, const layout *c, char *at_d, const layout *d,
                   const algorithm *words, char *workspace, size_t bytes, void *stream) {
    heuristic found;
    if (!words || !alpha || !beta || !at_a || !at_b || !at_c || !at_d)
        return INVALID_VALUE;
    const int status = cublasLtMatmulAlgoCheck(handle, op, a, b, c, d, words, &found);
    if (status)
        return status;
    if (fake_fails)
        return (int)fake_fails;
    const uintptr_t places[4] = {(uintptr_t)at_a, (uintptr_t)at_b, (uintptr_t)at_c, (uintptr_t)at_d};
    const layout *layouts[4] = {a, b, c, d};
    for (int k = 0; k < 4; k++) {
        const uint64_t alignment = words->alignment[k], step = (uint64_t)layouts[k]->step * (uint64_t)size_of(d->type);
        if (!alignment || places[k] % alignment || (d->count > 1 && step % alignment))
            return INVALID_VALUE;
    }
    if (bytes < words->workspace || (words->workspace && (!workspace || (uintptr_t)workspace % 256)))
        return INVALID_VALUE;
    const int is_double = d->type == R_64F;
    const job made = {*op, *a, *b, *d, is_double ? *(const double *)alpha : *(const float *)alpha,
                      is_double ? *(const double *)beta : *(const float *)beta, at_a, at_b, at_c, at_d, workspace, *words};
    return fake_driver->submit(stream, run, &made, sizeof made, workspace, words->workspace) ? EXECUTION_FAILED : SUCCESS;
}
