/* Several elementwise ops in one pass over memory, by dtype: each block of elements goes through all
 * steps while it is in the first-level cache. backends/cpu/fused.py says what the integers are. */

#include "math/arithmetic.h"
#include "elementwise/powers.h"
#include "math/special.h"

typedef void (*FN(step_row))(const T *a, const T *b, const T *c, T *y, int64_t n, const double *floats);

#define SDBR_UNARY_STEP(name, count) SDBR_UNARY_ROW(name, count) SDBR_STEP_OF_ROW(name)
#define SDBR_GUARDED_STEP(name, count) SDBR_GUARDED_ROW(name) SDBR_STEP_OF_ROW(name)
#define SDBR_STEP_OF_ROW(name) \
    static void FN(name##_step)(const T *a, const T *b, const T *c, T *y, int64_t n, const double *floats) { \
        (void)b, (void)c; \
        FN(name##_row)(a, y, n, floats); \
    }
#define SDBR_BINARY_STEP(name, count) SDBR_BINARY_ROW(name, count) SDBR_STEP_OF_BINARY_ROW(name)
#define SDBR_STEP_OF_BINARY_ROW(name) \
    static void FN(name##_step)(const T *a, const T *b, const T *c, T *y, int64_t n, const double *floats) { \
        (void)c; \
        FN(name##_row)(a, 1, b, 1, y, n, floats); \
    }
#define SDBR_TERNARY_STEP(name, count) SDBR_TERNARY_ROW(name, count) SDBR_STEP_OF_TERNARY_ROW(name)
#define SDBR_STEP_OF_TERNARY_ROW(name) \
    static void FN(name##_step)(const T *a, const T *b, const T *c, T *y, int64_t n, const double *floats) { \
        FN(name##_row)(a, b, 1, c, 1, y, n, floats); \
    }

SDBR_UNARY(SDBR_UNARY_STEP)
SDBR_UNARY_SPECIAL(SDBR_UNARY_STEP)
SDBR_UNARY_GUARDED(SDBR_GUARDED_STEP)
SDBR_UNARY_HIDDEN(SDBR_UNARY_STEP)
SDBR_BINARY(SDBR_BINARY_STEP)
SDBR_BINARY_SPECIAL(SDBR_BINARY_STEP)
SDBR_BINARY_HIDDEN(SDBR_BINARY_STEP)
SDBR_TERNARY(SDBR_TERNARY_STEP)
SDBR_STEP_OF_ROW(pow_any)
SDBR_STEP_OF_ROW(rpow_constant)
SDBR_STEP_OF_BINARY_ROW(power)
SDBR_STEP_OF_BINARY_ROW(pow_any_grad)
SDBR_STEP_OF_TERNARY_ROW(power_grad_x)

static void FN(fill_step)(const T *a, const T *b, const T *c, T *y, int64_t n, const double *floats) {
    const T value = (T)floats[0];
    (void)a, (void)b, (void)c;
    for (int64_t i = 0; i < n; i++)
        y[i] = value;
}

static void FN(copy_step)(const T *a, const T *b, const T *c, T *y, int64_t n, const double *floats) {
    (void)b, (void)c, (void)floats;
    memmove(y, a, (size_t)n * sizeof(T));
}

/* The same choice as among the kernels. */
static void FN(pow_constant_step)(const T *a, const T *b, const T *c, T *y, int64_t n, const double *floats) {
    const double value = floats[0];
    FN(step_row) row = value == 2.0    ? FN(square_step)
                       : value == 1.0  ? FN(identity_step)
                       : value == 0.5  ? FN(sqrt_step)
                       : value == -1.0 ? FN(reciprocal_step)
                       : value == 3.0  ? FN(cube_step)
                       : value == 0.0  ? FN(one_step)
                                       : FN(pow_any_step);
    row(a, b, c, y, n, floats);
}

static void FN(pow_constant_grad_step)(const T *a, const T *b, const T *c, T *y, int64_t n, const double *floats) {
    const double value = floats[0];
    FN(step_row) row = value == 2.0   ? FN(square_grad_step)
                       : value == 3.0 ? FN(cube_grad_step)
                       : value == 1.5 ? FN(sqrt_cube_grad_step)
                                      : FN(pow_any_grad_step);
    row(a, b, c, y, n, floats);
}

#define SDBR_STEP_ENTRY(name, count) FN(name##_step),
static const FN(step_row) FN(step_rows)[] = {SDBR_STEPS(SDBR_STEP_ENTRY)};

/* Copies the next `n` elements of a strided operand, in C order. */
static void FN(fused_load)(struct sdbr_fused_load *load, T *y, int64_t n) {
    const int64_t last = load->ndim - 1;
    while (n > 0) {
        const int64_t step = load->strides[last], left = load->shape[last] - load->index[last];
        const int64_t run = left < n ? left : n;
        const char *x = load->at;
        if (step == sizeof(T)) {
            SDBR_IVDEP
            for (int64_t i = 0; i < run; i++)
                y[i] = ((const T *)x)[i];
        } else if (step == 0) {
            const T value = *(const T *)x;
            for (int64_t i = 0; i < run; i++)
                y[i] = value;
        } else {
            for (int64_t i = 0; i < run; i++)
                y[i] = *(const T *)(x + i * step);
        }
        y += run;
        n -= run;
        load->at += run * step;
        load->index[last] += run;
        for (int64_t d = last; d >= 0 && load->index[d] == load->shape[d]; d--) {
            load->at -= load->shape[d] * load->strides[d];
            load->index[d] = 0;
            if (d > 0) {
                load->at += load->strides[d - 1];
                load->index[d - 1]++;
            }
        }
    }
}

static int FN(fused)(const sdbr_op *op) {
    const int64_t n = op->ints[0], block = op->ints[1], n_operands = op->ints[2], n_buffers = op->ints[3];
    const int64_t n_loads = op->ints[4], n_steps = op->ints[5], *ints = op->ints + 6;
    __attribute__((aligned(64))) T buffers[SDBR_FUSED_BYTES / sizeof(T)];
    struct sdbr_fused_load loads[SDBR_FUSED_REGISTERS];
    T *registers[SDBR_FUSED_REGISTERS];
    for (int64_t r = 0; r < n_operands; r++)
        registers[r] = (T *)op->operands[r];
    for (int64_t r = 0; r < n_buffers; r++)
        registers[n_operands + r] = buffers + r * block;
    for (int64_t k = 0; k < n_loads; k++) {
        struct sdbr_fused_load *load = loads + k;
        load->at = op->operands[ints[0]];
        load->buffer = n_operands + ints[1];
        load->again = ints[2];
        load->ndim = ints[3];
        load->shape = ints + 4;
        load->strides = ints + 4 + load->ndim;
        for (int64_t d = 0; d < load->ndim; d++)
            load->index[d] = 0;
        ints += 4 + 2 * load->ndim;
        if (!load->again)
            FN(fused_load)(load, registers[load->buffer], n < block ? n : block);
    }
    for (int64_t done = 0; done < n; done += block) {
        const int64_t length = n - done < block ? n - done : block, *step = ints;
        for (int64_t k = 0; k < n_loads; k++)
            if (loads[k].again)
                FN(fused_load)(loads + k, registers[loads[k].buffer], length);
        for (int64_t k = 0; k < n_steps; k++, step += 6)
            FN(step_rows)[step[0]](registers[step[1]], registers[step[2]], registers[step[3]], registers[step[4]],
                                   length, op->floats + step[5]);
        for (int64_t r = 0; r < n_operands; r++)
            registers[r] += block;
    }
    return SDBR_OK;
}

#undef SDBR_UNARY_STEP
#undef SDBR_GUARDED_STEP
#undef SDBR_STEP_OF_ROW
#undef SDBR_BINARY_STEP
#undef SDBR_TERNARY_STEP
#undef SDBR_STEP_ENTRY
