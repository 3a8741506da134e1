/* Random draws, by dtype. */

/* ints: [n]; operands x, y, mask. One next_double per element in C order, as numpy.random.rand draws. */
static int FN(dropout)(const sdbr_op *op) {
    enum { BLOCK = 256 };
    const int64_t n = op->ints[0];
    const double ratio = op->floats[0];
    const T scale = (T)(1.0 / (1.0 - ratio));
    sdbr_bitgen *bitgen = op->runtime->bitgen;
    double draws[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t length = n - i < BLOCK ? n - i : BLOCK;
        const T *x = (const T *)op->operands[0] + i;
        T *y = (T *)op->operands[1] + i, *mask = (T *)op->operands[2] + i;
        for (int64_t k = 0; k < length; k++)
            draws[k] = bitgen->next_double(bitgen->state);
        SDBR_IVDEP
        for (int64_t k = 0; k < length; k++) {
            mask[k] = draws[k] >= ratio ? scale : (T)0;
            y[k] = x[k] * mask[k];
        }
    }
    return SDBR_OK;
}
