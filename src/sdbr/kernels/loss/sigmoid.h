/* Sigmoid cross entropy of one element, by dtype: also of kernels for GPUs. */

/* -valid (x (t - (x >= 0)) - log1p(exp(-|x|))) */
SDBR_INLINE T FN(sigmoid_loss)(T x, T t, T valid) {
    const T positive = x >= 0 ? (T)1 : (T)0;
    return -(valid * (x * (t - positive) - FN(sdbr_log1p_unit)(FN(sdbr_exp)(-FABS(x)))));
}

/* gloss valid (sigmoid(x) - t) */
SDBR_INLINE T FN(sigmoid_loss_slope)(T x, T t, T valid, T gloss) {
    return gloss * valid * (FN(sdbr_sigmoid)(x) - t);
}
