/* Update kernels, by dtype; operands are C-contiguous, ints[0] is the size. */
#include "update/elements.h"

/* p_out = p - lr * g */
static int FN(sgd)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    const T *p = (const T *)op->operands[1];
    T *p_out = (T *)op->operands[2];
    const int64_t n = op->ints[0];
    SDBR_ROUNDED(f, op->floats, 1);
    SDBR_IVDEP
    for (int64_t i = 0; i < n; ++i)
        p_out[i] = FN(sgd_of)(g[i], p[i], f);
    return SDBR_OK;
}

/* v_out = momentum * v - lr * g; p_out = p + v_out */
static int FN(momentum_sgd)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    const T *p = (const T *)op->operands[1];
    const T *v = (const T *)op->operands[2];
    T *p_out = (T *)op->operands[3];
    T *v_out = (T *)op->operands[4];
    const int64_t n = op->ints[0];
    SDBR_ROUNDED(f, op->floats, 2);
    SDBR_IVDEP
    for (int64_t i = 0; i < n; ++i) {
        const T next = FN(momentum_of)(g[i], v[i], f);
        v_out[i] = next;
        p_out[i] = p[i] + next;
    }
    return SDBR_OK;
}

static int FN(adam)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    const T *p = (const T *)op->operands[1];
    const T *m = (const T *)op->operands[2];
    const T *v = (const T *)op->operands[3];
    T *p_out = (T *)op->operands[4];
    T *m_out = (T *)op->operands[5];
    T *v_out = (T *)op->operands[6];
    const int64_t n = op->ints[0];
    SDBR_ROUNDED(f, op->floats, 8);
    SDBR_IVDEP
    for (int64_t i = 0; i < n; ++i) {
        const T mi = FN(adam_mean)(g[i], m[i], f), vi = FN(adam_square)(g[i], v[i], f);
        m_out[i] = mi;
        v_out[i] = vi;
        p_out[i] = FN(adam_of)(p[i], mi, vi, f);
    }
    return SDBR_OK;
}

static int FN(adam_vhat)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    const T *p = (const T *)op->operands[1];
    const T *m = (const T *)op->operands[2];
    const T *v = (const T *)op->operands[3];
    const T *vhat = (const T *)op->operands[4];
    T *p_out = (T *)op->operands[5];
    T *m_out = (T *)op->operands[6];
    T *v_out = (T *)op->operands[7];
    T *vhat_out = (T *)op->operands[8];
    const int64_t n = op->ints[0];
    SDBR_ROUNDED(f, op->floats, 8);
    SDBR_IVDEP
    for (int64_t i = 0; i < n; ++i) {
        const T mi = FN(adam_mean)(g[i], m[i], f), vi = FN(adam_square)(g[i], v[i], f);
        const T hi = FN(adam_largest)(vhat[i], vi);
        m_out[i] = mi;
        v_out[i] = vi;
        vhat_out[i] = hi;
        p_out[i] = FN(adam_of)(p[i], mi, hi, f);
    }
    return SDBR_OK;
}

static int FN(rmsprop)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    const T *p = (const T *)op->operands[1];
    const T *ms = (const T *)op->operands[2];
    T *p_out = (T *)op->operands[3];
    T *ms_out = (T *)op->operands[4];
    const int64_t n = op->ints[0];
    SDBR_ROUNDED(f, op->floats, 5);
    SDBR_IVDEP
    for (int64_t i = 0; i < n; ++i) {
        const T mi = FN(rmsprop_square)(g[i], ms[i], f);
        ms_out[i] = mi;
        p_out[i] = FN(rmsprop_of)(g[i], p[i], mi, f);
    }
    return SDBR_OK;
}

/* g_out = g + rate * p */
static int FN(weight_decay)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    const T *p = (const T *)op->operands[1];
    T *g_out = (T *)op->operands[2];
    const int64_t n = op->ints[0];
    SDBR_ROUNDED(f, op->floats, 1);
    SDBR_IVDEP
    for (int64_t i = 0; i < n; ++i)
        g_out[i] = FN(weight_decay_of)(g[i], p[i], f);
    return SDBR_OK;
}

/* g_out = g + rate * sign(p) */
static int FN(lasso)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    const T *p = (const T *)op->operands[1];
    T *g_out = (T *)op->operands[2];
    const int64_t n = op->ints[0];
    SDBR_ROUNDED(f, op->floats, 1);
    SDBR_IVDEP
    for (int64_t i = 0; i < n; ++i)
        g_out[i] = FN(lasso_of)(g[i], p[i], f);
    return SDBR_OK;
}

#define LANES 16

/* (g * g).sum(), summed in double over independent lanes. */
static double FN(square_sum)(const T *g, int64_t n) {
    double lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; ++j)
            lanes[j] += (double)g[i + j] * (double)g[i + j];
    double total = 0;
    for (; i < n; ++i)
        total += (double)g[i] * (double)g[i];
    for (int j = 0; j < LANES; ++j)
        total += lanes[j];
    return total;
}

#undef LANES

/* norm = sqrt of the sum of (g * g).sum() over all g; g *= threshold / norm unless that is >= 1
 * (a NaN norm makes every gradient NaN, as in Chainer). ints: number of arrays, their sizes. */
static int FN(clip_norm)(const sdbr_op *op) {
    const int64_t count = op->ints[0];
    T total = 0;
    for (int64_t k = 0; k < count; ++k)
        total += (T)FN(square_sum)((const T *)op->operands[k], op->ints[1 + k]);
    const T norm = SQRT(total);
    *(double *)op->operands[count] = (double)norm;
    const T rate = (T)op->floats[0] / norm;
    if (rate >= 1)
        return SDBR_OK;
    for (int64_t k = 0; k < count; ++k) {
        T *g = (T *)op->operands[k];
        const int64_t n = op->ints[1 + k];
        for (int64_t i = 0; i < n; ++i)
            g[i] *= rate;
    }
    return SDBR_OK;
}
