/* LSTM cells, by dtype: see recurrent/lstm.h. */

/* ints: [m]; operands: c_prev, x, gates, c, h. */
SDBR_INLINE void FN(lstm_team)(sdbr_team team, const sdbr_device_op *op) {
    for (int64_t j = sdbr_first(team); j < op->ints[0]; j += sdbr_stride(team)) {
        const T *x = SDBR_IN(1) + 4 * j;
        T g[4], *gates = SDBR_OUT(2) + 4 * j;
        for (int k = 0; k < 4; k++)
            g[k] = FN(gate)(x[k], k);
        for (int k = 0; k < 4; k++)
            gates[k] = g[k];
        const T next = FN(lstm_next)(g, SDBR_IN(0)[j]);
        SDBR_OUT(3)[j] = next;
        SDBR_OUT(4)[j] = g[3] * FN(sdbr_tanh)(next);
    }
}

/* ints: [m, has gc, has gh]; operands: gates, c_prev, c, the gradients that are there, gx, gc_prev. */
SDBR_INLINE void FN(lstm_grad_team)(sdbr_team team, const sdbr_device_op *op) {
    const int has_gc = (int)op->ints[1], has_gh = (int)op->ints[2], outs = 3 + has_gc + has_gh;
    for (int64_t j = sdbr_first(team); j < op->ints[0]; j += sdbr_stride(team)) {
        const T gc = has_gc ? SDBR_IN(3)[j] : (T)0, gh = has_gh ? SDBR_IN(3 + has_gc)[j] : (T)0;
        const T before = SDBR_IN(1)[j];
        SDBR_OUT(outs + 1)[j] =
            FN(lstm_slopes)(SDBR_IN(0) + 4 * j, before, SDBR_IN(2)[j], gc, gh, SDBR_OUT(outs) + 4 * j);
    }
}
