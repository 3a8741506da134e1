/* What batch normalization keeps from batch to batch, by dtype. */

/* running = decay * running + (1 - decay) * now; the variance is that of a sample, m / (m - 1). */
static int FN(update_statistics)(const sdbr_op *op) {
    const T *mean = (const T *)op->operands[0], *variance = (const T *)op->operands[1];
    const T *old_mean = (const T *)op->operands[2], *old_variance = (const T *)op->operands[3];
    T *new_mean = (T *)op->operands[4], *new_variance = (T *)op->operands[5];
    const int64_t n = op->ints[0], m = op->ints[1];
    const double decay = op->floats[0], adjust = (double)m / (double)(m > 2 ? m - 1 : 1);
    const T keep = (T)decay, take = (T)(1 - decay), take_variance = (T)((1 - decay) * adjust);
    SDBR_IVDEP
    for (int64_t i = 0; i < n; i++) {
        new_mean[i] = old_mean[i] * keep + take * mean[i];
        new_variance[i] = old_variance[i] * keep + take_variance * variance[i];
    }
    return SDBR_OK;
}
