/* Update kernels for one dtype; operands are C-contiguous, ints[0] is the size. Scalars are
 * rounded to T first, as NumPy does with Python floats next to an array of T. */

/* p_out = p - lr * g */
static int FN(sgd)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    const T *p = (const T *)op->operands[1];
    T *p_out = (T *)op->operands[2];
    const T lr = (T)op->floats[0];
    const int64_t n = op->ints[0];
    SDBR_IVDEP
    for (int64_t i = 0; i < n; ++i)
        p_out[i] = p[i] - lr * g[i];
    return SDBR_OK;
}

/* v_out = momentum * v - lr * g; p_out = p + v_out */
static int FN(momentum_sgd)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    const T *p = (const T *)op->operands[1];
    const T *v = (const T *)op->operands[2];
    T *p_out = (T *)op->operands[3];
    T *v_out = (T *)op->operands[4];
    const T lr = (T)op->floats[0];
    const T momentum = (T)op->floats[1];
    const int64_t n = op->ints[0];
    SDBR_IVDEP
    for (int64_t i = 0; i < n; ++i) {
        T next = momentum * v[i] - lr * g[i];
        v_out[i] = next;
        p_out[i] = p[i] + next;
    }
    return SDBR_OK;
}

/* One element: m += (1 - beta1)(g - m); v += (1 - beta2)(g g - v); s = max(vhat, v) or v;
 * step = alpha_t / (sqrt(s) + eps) in [lower, upper]; p = decay p - eta step m. A NaN stays one. */
#define SDBR_ADAM_SCALARS                                                                            \
    const T alpha_t = (T)op->floats[0], rate1 = (T)op->floats[1], rate2 = (T)op->floats[2];          \
    const T eps = (T)op->floats[3], eta = (T)op->floats[4], decay = (T)op->floats[5];                \
    const T lower = (T)op->floats[6], upper = (T)op->floats[7];                                      \
    const int64_t n = op->ints[0];

static int FN(adam)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    const T *p = (const T *)op->operands[1];
    const T *m = (const T *)op->operands[2];
    const T *v = (const T *)op->operands[3];
    T *p_out = (T *)op->operands[4];
    T *m_out = (T *)op->operands[5];
    T *v_out = (T *)op->operands[6];
    SDBR_ADAM_SCALARS
    SDBR_IVDEP
    for (int64_t i = 0; i < n; ++i) {
        T mi = m[i] + rate1 * (g[i] - m[i]);
        T vi = v[i] + rate2 * (g[i] * g[i] - v[i]);
        T step = alpha_t / (SQRT(vi) + eps);
        step = step < lower ? lower : step;
        step = step > upper ? upper : step;
        m_out[i] = mi;
        v_out[i] = vi;
        p_out[i] = decay * p[i] - eta * (step * mi);
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
    SDBR_ADAM_SCALARS
    SDBR_IVDEP
    for (int64_t i = 0; i < n; ++i) {
        T mi = m[i] + rate1 * (g[i] - m[i]);
        T vi = v[i] + rate2 * (g[i] * g[i] - v[i]);
        T hi = vhat[i];
        hi = hi < vi || vi != vi ? vi : hi;
        T step = alpha_t / (SQRT(hi) + eps);
        step = step < lower ? lower : step;
        step = step > upper ? upper : step;
        m_out[i] = mi;
        v_out[i] = vi;
        vhat_out[i] = hi;
        p_out[i] = decay * p[i] - eta * (step * mi);
    }
    return SDBR_OK;
}

#undef SDBR_ADAM_SCALARS

/* ms = alpha ms + (1 - alpha) g g; p -= lr g / (sqrt(ms + eps) + eps), one of the two eps being 0. */
static int FN(rmsprop)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    const T *p = (const T *)op->operands[1];
    const T *ms = (const T *)op->operands[2];
    T *p_out = (T *)op->operands[3];
    T *ms_out = (T *)op->operands[4];
    const T lr = (T)op->floats[0], alpha = (T)op->floats[1], rate = (T)op->floats[2];
    const T inside = (T)op->floats[3], outside = (T)op->floats[4];
    const int64_t n = op->ints[0];
    SDBR_IVDEP
    for (int64_t i = 0; i < n; ++i) {
        const T mi = ms[i] * alpha + rate * g[i] * g[i];
        ms_out[i] = mi;
        p_out[i] = p[i] - lr * g[i] / (SQRT(mi + inside) + outside);
    }
    return SDBR_OK;
}

/* g_out = g + rate * p */
static int FN(weight_decay)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    const T *p = (const T *)op->operands[1];
    T *g_out = (T *)op->operands[2];
    const T rate = (T)op->floats[0];
    const int64_t n = op->ints[0];
    SDBR_IVDEP
    for (int64_t i = 0; i < n; ++i)
        g_out[i] = g[i] + rate * p[i];
    return SDBR_OK;
}

/* g_out = g + rate * sign(p) */
static int FN(lasso)(const sdbr_op *op) {
    const T *g = (const T *)op->operands[0];
    const T *p = (const T *)op->operands[1];
    T *g_out = (T *)op->operands[2];
    const T rate = (T)op->floats[0];
    const int64_t n = op->ints[0];
    SDBR_IVDEP
    for (int64_t i = 0; i < n; ++i) {
        T sign = p[i] > 0 ? (T)1 : (p[i] < 0 ? (T)-1 : p[i]); /* NaN stays NaN */
        g_out[i] = g[i] + rate * sign;
    }
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
