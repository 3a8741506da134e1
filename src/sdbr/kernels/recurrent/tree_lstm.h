/* Cells with any number of children, by dtype: x[n, 3 + children, cells] holds cell input, input
 * gate, output gate and a forget gate per child, one row of cells after the other. */

/* ints: [n, children, cells]; operands: x, c of each child, c, h. */
static int FN(tree_lstm)(const sdbr_op *op) {
    const int64_t n = op->ints[0], children = op->ints[1], cells = op->ints[2];
    for (int64_t r = 0; r < n; r++) {
        const T *x = (const T *)op->operands[0] + r * (3 + children) * cells;
        T *c = (T *)op->operands[1 + children] + r * cells, *h = (T *)op->operands[2 + children] + r * cells;
        SDBR_IVDEP
        for (int64_t j = 0; j < cells; j++)
            c[j] = FN(sdbr_tanh)(x[j]) * FN(sdbr_sigmoid)(x[cells + j]);
        for (int64_t k = 0; k < children; k++) {
            const T *f = x + (3 + k) * cells, *child = (const T *)op->operands[1 + k] + r * cells;
            SDBR_IVDEP
            for (int64_t j = 0; j < cells; j++)
                c[j] += FN(sdbr_sigmoid)(f[j]) * child[j];
        }
        SDBR_IVDEP
        for (int64_t j = 0; j < cells; j++)
            h[j] = FN(sdbr_sigmoid)(x[2 * cells + j]) * FN(sdbr_tanh)(c[j]);
    }
    return SDBR_OK;
}

/* ints: [n, children, cells, has gc, has gh]; operands: x, c, c of each child, the gradients that
 * are there, gx, gc of each child. */
static int FN(tree_lstm_grad)(const sdbr_op *op) {
    const int64_t n = op->ints[0], children = op->ints[1], cells = op->ints[2];
    const int64_t has_gc = op->ints[3], has_gh = op->ints[4];
    char **grads = op->operands + 2 + children, **outs = grads + has_gc + has_gh;
    T gc[SDBR_CELLS], gh[SDBR_CELLS], d[SDBR_CELLS];
    memset(gc, 0, sizeof gc);
    memset(gh, 0, sizeof gh);
    for (int64_t r = 0; r < n; r++)
        for (int64_t j = 0; j < cells; j += SDBR_CELLS) {
            const int64_t m = cells - j < SDBR_CELLS ? cells - j : SDBR_CELLS, at = r * cells + j;
            const T *x = (const T *)op->operands[0] + r * (3 + children) * cells + j;
            const T *c = (const T *)op->operands[1] + at;
            T *gx = (T *)outs[0] + r * (3 + children) * cells + j;
            if (has_gc)
                memcpy(gc, (const T *)grads[0] + at, (size_t)m * sizeof(T));
            if (has_gh)
                memcpy(gh, (const T *)grads[has_gc] + at, (size_t)m * sizeof(T));
            SDBR_IVDEP
            for (int64_t k = 0; k < m; k++) {
                const T a = FN(sdbr_tanh)(x[k]), i = FN(sdbr_sigmoid)(x[cells + k]);
                const T o = FN(sdbr_sigmoid)(x[2 * cells + k]), co = FN(sdbr_tanh)(c[k]);
                const T own = gh[k] * o * ((T)1 - co * co) + gc[k];
                gx[k] = own * i * ((T)1 - a * a);
                gx[cells + k] = own * a * i * ((T)1 - i);
                gx[2 * cells + k] = gh[k] * co * o * ((T)1 - o);
                d[k] = own;
            }
            for (int64_t q = 0; q < children; q++) {
                const T *child = (const T *)op->operands[2 + q] + at;
                const T *xf = x + (3 + q) * cells;
                T *gf = gx + (3 + q) * cells, *gchild = (T *)outs[1 + q] + at;
                SDBR_IVDEP
                for (int64_t k = 0; k < m; k++) {
                    const T f = FN(sdbr_sigmoid)(xf[k]);
                    gf[k] = d[k] * child[k] * f * ((T)1 - f);
                    gchild[k] = d[k] * f;
                }
            }
        }
    return SDBR_OK;
}
#undef SDBR_CELLS
