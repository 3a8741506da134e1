/* Update kernels, by dtype; operands are C-contiguous, ints[0] is the size. */
#include "update/elements.h"

/* How many elements come before `out` reaches the next line of the cache: NumPy's large arrays all lie 16 bytes behind
 * one, and vectors across two lines cost a sixth of the time where memory is the limit. */
static int64_t FN(before_line)(const T *out, int64_t n) {
    const uintptr_t line = 64, past = (uintptr_t)out % line;
    return past && n > 1024 ? (int64_t)((line - past) / sizeof(T)) : 0;
}

/* Where the block ends that begins at `begin`. In memory that no cache holds, what lies a distance behind it in the
 * first `count` operands is on its way then: processors stop looking ahead where a page ends. */
SDBR_INLINE int64_t FN(block_end)(const sdbr_op *op, int count, int64_t begin, int64_t n) {
    const int64_t block = SDBR_BLOCK_BYTES / sizeof(T);
    if (count == 0 || !op->runtime->is_far)
        return n;
    for (int k = 0; k < count; ++k) {
        const uintptr_t first = (uintptr_t)op->operands[k] + (uintptr_t)begin * sizeof(T) + SDBR_AHEAD_BYTES;
        for (uintptr_t at = 0; at < SDBR_BLOCK_BYTES; at += 64)
            __builtin_prefetch((const void *)(first + at));
    }
    return n - begin < block ? n : begin + block;
}

/* for each i < n, those before the line by themselves; see block_end. Without arithmetic that takes long, `count` is 0:
 * processors keep up by themselves. */
#define SDBR_EACH(op, count, i, n, out)                                                                    \
    for (int64_t begin_ = 0, end_ = FN(before_line)(out, n); begin_ < (n);                                 \
         begin_ = end_, end_ = FN(block_end)(op, count, end_, n))                                          \
    SDBR_IVDEP                                                                                             \
    for (int64_t i = begin_; i < end_; ++i)

/* p_out = p - lr * g */
static int FN(sgd)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    const T *p = (const T *)op->operands[1];
    T *p_out = (T *)op->operands[2];
    const int64_t n = op->ints[0];
    SDBR_ROUNDED(f, op->floats, 1);
    SDBR_EACH(op, 0, i, n, p_out)
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
    SDBR_EACH(op, 0, i, n, p_out) {
        const T next = FN(momentum_of)(g[i], v[i], f);
        v_out[i] = next;
        p_out[i] = p[i] + next;
    }
    return SDBR_OK;
}

/* v_out = momentum * v - g; p_out = p + lr * v_out */
static int FN(corrected_momentum_sgd)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    const T *p = (const T *)op->operands[1];
    const T *v = (const T *)op->operands[2];
    T *p_out = (T *)op->operands[3];
    T *v_out = (T *)op->operands[4];
    const int64_t n = op->ints[0];
    SDBR_ROUNDED(f, op->floats, 2);
    SDBR_EACH(op, 0, i, n, p_out) {
        const T next = FN(corrected_momentum_of)(g[i], v[i], f);
        v_out[i] = next;
        p_out[i] = FN(corrected_momentum_step)(p[i], next, f);
    }
    return SDBR_OK;
}

/* v_out = momentum * v - lr * g; p_out = p + momentum_squared * v_out - ahead * g */
static int FN(nesterov_ag)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    const T *p = (const T *)op->operands[1];
    const T *v = (const T *)op->operands[2];
    T *p_out = (T *)op->operands[3];
    T *v_out = (T *)op->operands[4];
    const int64_t n = op->ints[0];
    SDBR_ROUNDED(f, op->floats, 4);
    SDBR_EACH(op, 0, i, n, p_out) {
        const T next = FN(momentum_of)(g[i], v[i], f);
        v_out[i] = next;
        p_out[i] = FN(nesterov_of)(g[i], p[i], next, f);
    }
    return SDBR_OK;
}

static int FN(ada_grad)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    const T *p = (const T *)op->operands[1];
    const T *h = (const T *)op->operands[2];
    T *p_out = (T *)op->operands[3];
    T *h_out = (T *)op->operands[4];
    const int64_t n = op->ints[0];
    SDBR_ROUNDED(f, op->floats, 2);
    SDBR_EACH(op, 3, i, n, p_out) {
        const T hi = FN(ada_grad_sum)(g[i], h[i]);
        h_out[i] = hi;
        p_out[i] = FN(ada_grad_of)(g[i], p[i], hi, f);
    }
    return SDBR_OK;
}

static int FN(ada_delta)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    const T *p = (const T *)op->operands[1];
    const T *msg = (const T *)op->operands[2];
    const T *msdx = (const T *)op->operands[3];
    T *p_out = (T *)op->operands[4];
    T *msg_out = (T *)op->operands[5];
    T *msdx_out = (T *)op->operands[6];
    const int64_t n = op->ints[0];
    SDBR_ROUNDED(f, op->floats, 3);
    SDBR_EACH(op, 4, i, n, p_out) {
        const T square = FN(ada_delta_square)(g[i], msg[i], f);
        const T step = FN(ada_delta_step)(g[i], square, msdx[i], f);
        msg_out[i] = square;
        msdx_out[i] = FN(ada_delta_square)(step, msdx[i], f);
        p_out[i] = p[i] - step;
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
    SDBR_EACH(op, 4, i, n, p_out) {
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
    SDBR_EACH(op, 5, i, n, p_out) {
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
    SDBR_EACH(op, 3, i, n, p_out) {
        const T mi = FN(rmsprop_square)(g[i], ms[i], f);
        ms_out[i] = mi;
        p_out[i] = FN(rmsprop_of)(g[i], p[i], mi, f);
    }
    return SDBR_OK;
}

static int FN(rmsprop_graves)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    const T *p = (const T *)op->operands[1];
    const T *square = (const T *)op->operands[2];
    const T *mean = (const T *)op->operands[3];
    const T *delta = (const T *)op->operands[4];
    T *p_out = (T *)op->operands[5];
    T *square_out = (T *)op->operands[6];
    T *mean_out = (T *)op->operands[7];
    T *delta_out = (T *)op->operands[8];
    const int64_t n = op->ints[0];
    SDBR_ROUNDED(f, op->floats, 5);
    SDBR_EACH(op, 5, i, n, p_out) {
        const T si = FN(graves_square)(g[i], square[i], f), mi = FN(graves_mean)(g[i], mean[i], f);
        const T step = FN(graves_delta)(g[i], si, mi, delta[i], f);
        square_out[i] = si;
        mean_out[i] = mi;
        delta_out[i] = step;
        p_out[i] = p[i] + step;
    }
    return SDBR_OK;
}

static int FN(smorms3)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    const T *p = (const T *)op->operands[1];
    const T *mem = (const T *)op->operands[2];
    const T *mean = (const T *)op->operands[3];
    const T *square = (const T *)op->operands[4];
    T *p_out = (T *)op->operands[5];
    T *mem_out = (T *)op->operands[6];
    T *mean_out = (T *)op->operands[7];
    T *square_out = (T *)op->operands[8];
    const int64_t n = op->ints[0];
    SDBR_ROUNDED(f, op->floats, 2);
    SDBR_EACH(op, 5, i, n, p_out) {
        const T r = 1 / (mem[i] + 1);
        const T mi = FN(smorms3_mean)(g[i], mean[i], r), si = FN(smorms3_square)(g[i], square[i], r);
        const T x = FN(smorms3_x)(mi, si, f);
        p_out[i] = FN(smorms3_of)(g[i], p[i], si, x, f);
        mem_out[i] = 1 + mem[i] * (1 - x);
        mean_out[i] = mi;
        square_out[i] = si;
    }
    return SDBR_OK;
}

static int FN(msvag)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    const T *p = (const T *)op->operands[1];
    const T *m = (const T *)op->operands[2];
    const T *v = (const T *)op->operands[3];
    T *p_out = (T *)op->operands[4];
    T *m_out = (T *)op->operands[5];
    T *v_out = (T *)op->operands[6];
    const int64_t n = op->ints[0];
    SDBR_ROUNDED(f, op->floats, 7);
    SDBR_EACH(op, 4, i, n, p_out) {
        const T mi = FN(msvag_mean)(g[i], m[i], f), vi = FN(msvag_square)(g[i], v[i], f);
        m_out[i] = mi;
        v_out[i] = vi;
        p_out[i] = FN(msvag_of)(p[i], mi, vi, f);
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
    SDBR_EACH(op, 0, i, n, g_out)
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
    SDBR_EACH(op, 0, i, n, g_out)
        g_out[i] = FN(lasso_of)(g[i], p[i], f);
    return SDBR_OK;
}

/* g_out = g, into bounds */
static int FN(hard_clip)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    T *g_out = (T *)op->operands[2];
    const int64_t n = op->ints[0];
    SDBR_ROUNDED(f, op->floats, 2);
    SDBR_EACH(op, 0, i, n, g_out)
        g_out[i] = FN(hard_clip_of)(g[i], f);
    return SDBR_OK;
}

/* g_out = g + noise */
static int FN(add_noise)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    const T *noise = (const T *)op->operands[1];
    T *g_out = (T *)op->operands[2];
    const int64_t n = op->ints[0];
    SDBR_EACH(op, 0, i, n, g_out)
        g_out[i] = g[i] + noise[i];
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

/* g_out = (g + decay * p) * rate, which makes it as long as p */
static int FN(lars)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    const T *p = (const T *)op->operands[1];
    T *g_out = (T *)op->operands[2];
    const int64_t n = op->ints[0];
    SDBR_ROUNDED(f, op->floats, 3);
    const T of_p = SQRT((T)FN(square_sum)(p, n)), of_g = SQRT((T)FN(square_sum)(g, n));
    const T rate = FN(lars_rate)(of_p, of_g, f);
    SDBR_EACH(op, 0, i, n, g_out)
        g_out[i] = FN(lars_of)(g[i], p[i], rate, f);
    return SDBR_OK;
}

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

/* Whether all elements are finite. ints: number of arrays, their sizes. */
static int FN(all_finite)(const sdbr_op *op) {
    const int64_t count = op->ints[0];
    int others = 0;
    for (int64_t k = 0; k < count; ++k) {
        const T *g = (const T *)op->operands[k];
        const int64_t n = op->ints[1 + k];
        for (int64_t i = 0; i < n; ++i)
            others |= FN(is_not_finite)(g[i]);
    }
    *(double *)op->operands[count] = !others;
    return SDBR_OK;
}
