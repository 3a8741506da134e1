/* The gates of one LSTM cell, by dtype: of the kernels of the CPU, and of those for GPUs. */

/* tanh of the cell input and sigmoid of the gates are one formula, s(|x| k) p + q with the sign of
 * x, so that a vector goes over all four at once. Adding -0 keeps the sign of a zero. */
#define SDBR_GATES(first, other) \
    {first, other, other, other, first, other, other, other, first, other, other, other, first, other, other, other}
SDBR_TABLE T FN(gate_scale)[16] = SDBR_GATES(2, 1);
SDBR_TABLE T FN(gate_factor)[16] = SDBR_GATES(1, (T)0.5);
SDBR_TABLE T FN(gate_shift)[16] = SDBR_GATES((T)-0.0, (T)0.5);
#undef SDBR_GATES

SDBR_INLINE T FN(gate)(T x, int k) {
    return COPYSIGN(FN(sdbr_tanh_half)(FN(gate_scale)[k] * FABS(x)), x) * FN(gate_factor)[k] + FN(gate_shift)[k];
}

/* The next cell, of the gates [cell input, input gate, forget gate, output gate]. */
SDBR_INLINE T FN(lstm_next)(const T *g, T c_prev) { return g[0] * g[1] + g[2] * c_prev; }

/* The gradients of the gates before their activation, which may take the place of the gates, and that of c_prev. */
SDBR_INLINE T FN(lstm_slopes)(const T *g, T c_prev, T c, T gc, T gh, T *gx) {
    const T a = g[0], i = g[1], f = g[2], o = g[3];
    const T co = FN(sdbr_tanh)(c), d = gh * o * ((T)1 - co * co) + gc;
    gx[0] = d * i * ((T)1 - a * a);
    gx[1] = d * a * i * ((T)1 - i);
    gx[2] = d * c_prev * f * ((T)1 - f);
    gx[3] = gh * co * o * ((T)1 - o);
    return d * f;
}
