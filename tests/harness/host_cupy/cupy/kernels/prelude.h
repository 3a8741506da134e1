/* What the kernels' CUDA C finds besides C: in front of every generated source. */
#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <tgmath.h>

/* Names of types in kernels. */
#undef I
#undef complex

typedef int8_t int8;
typedef int16_t int16;
typedef int32_t int32;
typedef int64_t int64;
typedef uint8_t uint8;
typedef uint16_t uint16;
typedef uint32_t uint32;
typedef uint64_t uint64;
typedef _Float16 float16;
typedef float float32;
typedef double float64;

enum { MOST_AXES = 32 };

struct argument {
    char *base;
    ptrdiff_t size, ndim, shape[MOST_AXES], strides[MOST_AXES];
};

/* The element at a place in C order. */
static inline char *locate(const struct argument *a, ptrdiff_t i) {
    char *at = a->base;
    for (ptrdiff_t axis = a->ndim - 1; axis >= 0; axis--) {
        at += i % a->shape[axis] * a->strides[axis];
        i /= a->shape[axis];
    }
    return at;
}

static inline char *locate_ints(const struct argument *a, const int *index) {
    char *at = a->base;
    for (ptrdiff_t axis = 0; axis < a->ndim; axis++) at += index[axis] * a->strides[axis];
    return at;
}

static inline char *locate_sizes(const struct argument *a, const ptrdiff_t *index) {
    char *at = a->base;
    for (ptrdiff_t axis = 0; axis < a->ndim; axis++) at += index[axis] * a->strides[axis];
    return at;
}

/* Arrays that are indexed by a kernel itself: by a place, or by an index for each axis. */
#define AT(array, type, i)                                                                        \
    (*(type *)_Generic((i),                                                                       \
        int *: locate_ints, const int *: locate_ints,                                             \
        ptrdiff_t *: locate_sizes, const ptrdiff_t *: locate_sizes,                               \
        default: locate)(&array, i))

/* Overloads of C++: as in CUDA, a NaN loses against a number. */
static inline int64_t least_of_integers(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t greatest_of_integers(int64_t a, int64_t b) { return a > b ? a : b; }
#define min(a, b)                                                                                 \
    _Generic((a) + (b), float: fminf, double: fmin, default: least_of_integers)(a, b)
#define max(a, b)                                                                                 \
    _Generic((a) + (b), float: fmaxf, double: fmax, default: greatest_of_integers)(a, b)
#undef abs
#define abs(a) _Generic((a) + 0, float: fabsf, double: (fabs), default: llabs)(a)

#define atomicAdd(place, value) (*(place) += (value))
#define atomicMax(place, value) (*(place) = max(*(place), value))
#define atomicMin(place, value) (*(place) = min(*(place), value))

#define rsqrt(x) (1 / sqrt(x))
#define rsqrtf(x) (1 / sqrtf(x))
#define __expf expf
#define __logf logf
#define __powf powf
#define __float2int_rd(x) ((int)floorf(x))
#define __float2int_rn(x) ((int)rintf(x))

/* Functions that C has not: set to SciPy's when the library is loaded. */
double (*host_erfcinv)(double, int), (*host_erfcx)(double, int), (*host_erfinv)(double, int);
double (*host_ndtr)(double, int), (*host_ndtri)(double, int), (*host_psi)(double, int);
#define AS_ITS_ARGUMENT(x, y) _Generic((x) + 0, float: (float)(y), default: (y))
#define erfcinv(x) AS_ITS_ARGUMENT(x, host_erfcinv(x, 0))
#define erfcx(x) AS_ITS_ARGUMENT(x, host_erfcx(x, 0))
#define erfinv(x) AS_ITS_ARGUMENT(x, host_erfinv(x, 0))
#define normcdf(x) AS_ITS_ARGUMENT(x, host_ndtr(x, 0))
#define normcdfinv(x) AS_ITS_ARGUMENT(x, host_ndtri(x, 0))
#define digamma(x) AS_ITS_ARGUMENT(x, host_psi(x, 0))
