/* Random draws, by dtype: one next_double per element in C order, as numpy.random draws. */

#define DRAW_BLOCK 256

/* ints: [n]; operands x, y, mask. */
static int FN(dropout)(const sdbr_op *op) {
    const int64_t n = op->ints[0];
    const double ratio = op->floats[0];
    const T scale = (T)(1.0 / (1.0 - ratio));
    sdbr_bitgen *bitgen = op->runtime->bitgen;
    double draws[DRAW_BLOCK];
    for (int64_t i = 0; i < n; i += DRAW_BLOCK) {
        const int64_t length = n - i < DRAW_BLOCK ? n - i : DRAW_BLOCK;
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

/* ints: [n]; operand mask. */
static int FN(keep_mask)(const sdbr_op *op) {
    const int64_t n = op->ints[0];
    const double ratio = op->floats[0];
    sdbr_bitgen *bitgen = op->runtime->bitgen;
    double draws[DRAW_BLOCK];
    for (int64_t i = 0; i < n; i += DRAW_BLOCK) {
        const int64_t length = n - i < DRAW_BLOCK ? n - i : DRAW_BLOCK;
        T *mask = (T *)op->operands[0] + i;
        for (int64_t k = 0; k < length; k++)
            draws[k] = bitgen->next_double(bitgen->state);
        for (int64_t k = 0; k < length; k++) /* apart: a branch on each draw is guessed wrong half the time */
            mask[k] = draws[k] >= ratio ? (T)1 : (T)0;
    }
    return SDBR_OK;
}

/* ints: [n]; operand y. Product and sum are rounded one by one, as NumPy's are: no fused
 * multiply-add, which cannot reach over the barrier. */
static int FN(uniform)(const sdbr_op *op) {
    const int64_t n = op->ints[0];
    const double low = op->floats[0], range = op->floats[1] - op->floats[0];
    sdbr_bitgen *bitgen = op->runtime->bitgen;
    double draws[DRAW_BLOCK];
    for (int64_t i = 0; i < n; i += DRAW_BLOCK) {
        const int64_t length = n - i < DRAW_BLOCK ? n - i : DRAW_BLOCK;
        T *y = (T *)op->operands[0] + i;
        for (int64_t k = 0; k < length; k++)
            draws[k] = range * bitgen->next_double(bitgen->state);
        __asm__ __volatile__("" : : "r"(draws) : "memory");
        for (int64_t k = 0; k < length; k++)
            y[k] = (T)(low + draws[k]);
    }
    return SDBR_OK;
}

#undef DRAW_BLOCK
