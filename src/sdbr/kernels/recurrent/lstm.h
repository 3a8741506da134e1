/* LSTM cells, by dtype. The four numbers of a cell lie side by side: x[m, 4] holds cell input,
 * input gate, forget gate and output gate of m cells. C-contiguous operands. */

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
        const T next = FN(lstm_next)(g + 4 * j, c_prev[j]);
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
        gc_prev[j] = FN(lstm_slopes)(g + 4 * j, c_prev[j], c[j], has_gc ? gc[j] : (T)0, has_gh ? gh[j] : (T)0, gx + 4 * j);
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
