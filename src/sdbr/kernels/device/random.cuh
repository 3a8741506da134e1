/* Random draws, by dtype: of numbers in [0, 1) that were drawn before, op->work; see random/kernels.h. */

/* ints: [n]; operands: x, y, mask. */
SDBR_INLINE void FN(dropout_team)(sdbr_team team, const sdbr_device_op *op) {
    const double ratio = op->floats[0];
    const T scale = (T)(1.0 / (1.0 - ratio));
    for (int64_t i = sdbr_first(team); i < op->ints[0]; i += sdbr_stride(team)) {
        const T mask = op->work[i] >= ratio ? scale : (T)0;
        SDBR_OUT(1)[i] = SDBR_IN(0)[i] * mask;
        SDBR_OUT(2)[i] = mask;
    }
}

/* ints: [n]; operand: mask. */
SDBR_INLINE void FN(keep_mask_team)(sdbr_team team, const sdbr_device_op *op) {
    for (int64_t i = sdbr_first(team); i < op->ints[0]; i += sdbr_stride(team))
        SDBR_OUT(0)[i] = op->work[i] >= op->floats[0] ? (T)1 : (T)0;
}

/* ints: [n]; operand: y. Product and sum are rounded one by one, as NumPy's are. */
SDBR_INLINE void FN(uniform_team)(sdbr_team team, const sdbr_device_op *op) {
    const double low = op->floats[0], range = op->floats[1] - op->floats[0];
    for (int64_t i = sdbr_first(team); i < op->ints[0]; i += sdbr_stride(team))
        SDBR_OUT(0)[i] = (T)SDBR_SUM_OF_ROUNDED(low, SDBR_ROUNDED_PRODUCT(range, op->work[i]));
}
