/* Cells with two children and one output gate, by dtype; layout as in lstm.h. */

#define SDBR_CELLS 64 /* at a time: their gates lie on the stack */

/* Gates of cells [j, j + n): those of both children, and sigmoid(o1 + o2) in the place of o1. */
static void FN(slstm_gates)(const sdbr_op *op, int64_t j, int64_t n, T *g1, T *g2) {
    const T *x1 = (const T *)op->operands[2] + 4 * j, *x2 = (const T *)op->operands[3] + 4 * j;
    FN(open_gates)(x1, g1, n);
    FN(open_gates)(x2, g2, n);
    SDBR_IVDEP
    for (int64_t k = 0; k < n; k++)
        g1[4 * k + 3] = FN(sdbr_sigmoid)(x1[4 * k + 3] + x2[4 * k + 3]);
}

/* ints: [m]; operands: c1, c2, x1, x2, c, h. */
static int FN(slstm)(const sdbr_op *op) {
    const int64_t m = op->ints[0];
    T g1[4 * SDBR_CELLS], g2[4 * SDBR_CELLS];
    for (int64_t j = 0; j < m; j += SDBR_CELLS) {
        const int64_t n = m - j < SDBR_CELLS ? m - j : SDBR_CELLS;
        const T *c1 = (const T *)op->operands[0] + j, *c2 = (const T *)op->operands[1] + j;
        T *c = (T *)op->operands[4] + j, *h = (T *)op->operands[5] + j;
        FN(slstm_gates)(op, j, n, g1, g2);
        SDBR_IVDEP
        for (int64_t k = 0; k < n; k++) {
            const T next = g1[4 * k] * g1[4 * k + 1] + g2[4 * k] * g2[4 * k + 1] + g1[4 * k + 2] * c1[k] +
                           g2[4 * k + 2] * c2[k];
            c[k] = next;
            h[k] = g1[4 * k + 3] * FN(sdbr_tanh)(next);
        }
    }
    return SDBR_OK;
}

/* ints: [m, has gc, has gh]; operands: c1, c2, x1, x2, c, the gradients that are there, gx1, gx2, gc1, gc2. */
static int FN(slstm_grad)(const sdbr_op *op) {
    const int64_t m = op->ints[0], has_gc = op->ints[1], has_gh = op->ints[2];
    char **outs = op->operands + 5 + has_gc + has_gh;
    T g1[4 * SDBR_CELLS], g2[4 * SDBR_CELLS], gc[SDBR_CELLS], gh[SDBR_CELLS];
    memset(gc, 0, sizeof gc);
    memset(gh, 0, sizeof gh);
    for (int64_t j = 0; j < m; j += SDBR_CELLS) {
        const int64_t n = m - j < SDBR_CELLS ? m - j : SDBR_CELLS;
        const T *c1 = (const T *)op->operands[0] + j, *c2 = (const T *)op->operands[1] + j;
        const T *c = (const T *)op->operands[4] + j;
        T *gx1 = (T *)outs[0] + 4 * j, *gx2 = (T *)outs[1] + 4 * j, *gc1 = (T *)outs[2] + j, *gc2 = (T *)outs[3] + j;
        if (has_gc)
            memcpy(gc, (const T *)op->operands[5] + j, (size_t)n * sizeof(T));
        if (has_gh)
            memcpy(gh, (const T *)op->operands[5 + has_gc] + j, (size_t)n * sizeof(T));
        FN(slstm_gates)(op, j, n, g1, g2);
        SDBR_IVDEP
        for (int64_t k = 0; k < n; k++) {
            const T o = g1[4 * k + 3], co = FN(sdbr_tanh)(c[k]), d = gh[k] * o * ((T)1 - co * co) + gc[k];
            const T go = gh[k] * co * o * ((T)1 - o);
            const T a1 = g1[4 * k], i1 = g1[4 * k + 1], f1 = g1[4 * k + 2];
            const T a2 = g2[4 * k], i2 = g2[4 * k + 1], f2 = g2[4 * k + 2];
            gx1[4 * k] = d * i1 * ((T)1 - a1 * a1);
            gx1[4 * k + 1] = d * a1 * i1 * ((T)1 - i1);
            gx1[4 * k + 2] = d * c1[k] * f1 * ((T)1 - f1);
            gx1[4 * k + 3] = go;
            gx2[4 * k] = d * i2 * ((T)1 - a2 * a2);
            gx2[4 * k + 1] = d * a2 * i2 * ((T)1 - i2);
            gx2[4 * k + 2] = d * c2[k] * f2 * ((T)1 - f2);
            gx2[4 * k + 3] = go;
            gc1[k] = d * f1;
            gc2[k] = d * f2;
        }
    }
    return SDBR_OK;
}
