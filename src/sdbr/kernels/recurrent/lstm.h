/* LSTM cells, by dtype. The four numbers of a cell lie side by side: x[m, 4] holds cell input,
 * input gate, forget gate and output gate of m cells. C-contiguous operands. */

/* tanh of the cell input and sigmoid of the gates are one formula, s(|x| k) p + q with the sign of
 * x, so that a vector goes over all four at once. Adding -0 keeps the sign of a zero. */
#define SDBR_GATES(first, other) \
    {first, other, other, other, first, other, other, other, first, other, other, other, first, other, other, other}
static const T FN(gate_scale)[16] = SDBR_GATES(2, 1);
static const T FN(gate_factor)[16] = SDBR_GATES(1, (T)0.5);
static const T FN(gate_shift)[16] = SDBR_GATES((T)-0.0, (T)0.5);
#undef SDBR_GATES

SDBR_INLINE T FN(gate)(T x, int k) {
    return COPYSIGN(FN(sdbr_tanh_half)(FN(gate_scale)[k] * FABS(x)), x) * FN(gate_factor)[k] + FN(gate_shift)[k];
}

/* y[m, 4] from x[m, 4], which may be the same array. */
static void FN(open_gates)(const T *x, T *y, int64_t m) {
    const int64_t n = 4 * m;
    int64_t j = 0;
    for (; j + 16 <= n; j += 16) {
        SDBR_IVDEP
        for (int k = 0; k < 16; k++)
            y[j + k] = FN(gate)(x[j + k], k);
    }
    for (; j < n; j++)
        y[j] = FN(gate)(x[j], (int)(j & 3));
}

/* ints: [m]; operands: c_prev, x, gates, c, h. */
static int FN(lstm)(const sdbr_op *op) {
    const int64_t m = op->ints[0];
    const T *c_prev = (const T *)op->operands[0];
    T *g = (T *)op->operands[2], *c = (T *)op->operands[3], *h = (T *)op->operands[4];
    FN(open_gates)((const T *)op->operands[1], g, m);
    SDBR_IVDEP
    for (int64_t j = 0; j < m; j++) {
        const T next = g[4 * j] * g[4 * j + 1] + g[4 * j + 2] * c_prev[j];
        c[j] = next;
        h[j] = g[4 * j + 3] * FN(sdbr_tanh)(next);
    }
    return SDBR_OK;
}

/* gx may be the array of the gates. A gradient that is not there is 0. */
SDBR_INLINE void FN(lstm_back)(int64_t m, const T *g, const T *c_prev, const T *c, int has_gc, const T *gc, int has_gh,
                               const T *gh, T *gx, T *gc_prev) {
    SDBR_IVDEP
    for (int64_t j = 0; j < m; j++) {
        const T a = g[4 * j], i = g[4 * j + 1], f = g[4 * j + 2], o = g[4 * j + 3];
        const T above = has_gh ? gh[j] : (T)0, co = FN(sdbr_tanh)(c[j]);
        const T d = above * o * ((T)1 - co * co) + (has_gc ? gc[j] : (T)0);
        gx[4 * j] = d * i * ((T)1 - a * a);
        gx[4 * j + 1] = d * a * i * ((T)1 - i);
        gx[4 * j + 2] = d * c_prev[j] * f * ((T)1 - f);
        gx[4 * j + 3] = above * co * o * ((T)1 - o);
        gc_prev[j] = d * f;
    }
}

/* ints: [m, has gc, has gh]; operands: gates, c_prev, c, the gradients that are there, gx, gc_prev. */
static int FN(lstm_grad)(const sdbr_op *op) {
    const int64_t m = op->ints[0], has_gc = op->ints[1], has_gh = op->ints[2];
    const T *g = (const T *)op->operands[0], *c_prev = (const T *)op->operands[1], *c = (const T *)op->operands[2];
    const T *first = (const T *)op->operands[3];
    char **outs = op->operands + 3 + has_gc + has_gh;
    T *gx = (T *)outs[0], *gc_prev = (T *)outs[1];
    if (has_gc && has_gh)
        FN(lstm_back)(m, g, c_prev, c, 1, first, 1, (const T *)op->operands[4], gx, gc_prev);
    else if (has_gc)
        FN(lstm_back)(m, g, c_prev, c, 1, first, 0, NULL, gx, gc_prev);
    else
        FN(lstm_back)(m, g, c_prev, c, 0, NULL, 1, first, gx, gc_prev);
    return SDBR_OK;
}
