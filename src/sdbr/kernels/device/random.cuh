/* Random draws, by dtype: of numbers in [0, 1) that were drawn before, op->work (see random/kernels.h), or of such that
 * are made here. */

SDBR_INLINE void FN(drop)(const sdbr_device_op *op, int64_t i, double drawn) {
    const double ratio = op->floats[0];
    const T mask = drawn >= ratio ? (T)(1.0 / (1.0 - ratio)) : (T)0;
    SDBR_OUT(1)[i] = SDBR_IN(0)[i] * mask;
    SDBR_OUT(2)[i] = mask;
}

/* ints: [n]; operands: x, y, mask. */
SDBR_INLINE void FN(dropout_team)(sdbr_team team, const sdbr_device_op *op) {
    const int64_t n = op->ints[0];
    if (!op->makes_draws) {
        for (int64_t i = sdbr_first(team); i < n; i += sdbr_stride(team))
            FN(drop)(op, i, op->work[i]);
        return;
    }
    for (int64_t k = sdbr_first(team); 4 * k < n; k += sdbr_stride(team)) {
        const sdbr_philox drawn = sdbr_draws_of(op, k);
        for (int j = 0; j < 4 && 4 * k + j < n; j++)
            FN(drop)(op, 4 * k + j, sdbr_unit(drawn.of[j]));
    }
}

/* ints: [n]; operand: mask. */
SDBR_INLINE void FN(keep_mask_team)(sdbr_team team, const sdbr_device_op *op) {
    for (int64_t i = sdbr_first(team); i < op->ints[0]; i += sdbr_stride(team))
        SDBR_OUT(0)[i] = sdbr_drawn(op, i) >= op->floats[0] ? (T)1 : (T)0;
}

/* ints: [n]; operand: y. Product and sum are rounded one by one, as NumPy's are. */
SDBR_INLINE void FN(uniform_team)(sdbr_team team, const sdbr_device_op *op) {
    const double low = op->floats[0], range = op->floats[1] - op->floats[0];
    for (int64_t i = sdbr_first(team); i < op->ints[0]; i += sdbr_stride(team))
        SDBR_OUT(0)[i] = (T)SDBR_SUM_OF_ROUNDED(low, SDBR_ROUNDED_PRODUCT(range, sdbr_drawn(op, i)));
}
