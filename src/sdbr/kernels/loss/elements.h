/* Losses that treat each element alike, by dtype: sigmoid_cross_entropy, mean_squared_error,
 * mean_absolute_error. C-contiguous operands. */

#define LABEL_BLOCK 256

/* Labels as numbers, and 1 or 0 for -1 in `valid`. */
SDBR_INLINE void FN(read_labels)(const char *t, int64_t code, int64_t begin, int64_t n, T *labels, T *valid) {
    for (int64_t i = 0; i < n; i++) {
        const int64_t label = sdbr_label(t, code, begin + i);
        labels[i] = (T)label;
        valid[i] = (T)(label != -1);
    }
}

/* ints: [n, label dtype, normalize, batch]; operands: x, t, loss, count. */
static int FN(sigmoid_cross_entropy)(const sdbr_op *op) {
    const int64_t n = op->ints[0], code = op->ints[1], normalize = op->ints[2], batch = op->ints[3];
    T labels[LABEL_BLOCK], valid[LABEL_BLOCK], loss[LABEL_BLOCK];
    sdbr_pairs pairs;
    int64_t used = 0;
    pairs.count = 0;
    for (int64_t i = 0; i < n; i += LABEL_BLOCK) {
        const int64_t length = n - i < LABEL_BLOCK ? n - i : LABEL_BLOCK;
        const T *x = (const T *)op->operands[0] + i;
        FN(read_labels)(op->operands[1], code, i, length, labels, valid);
        for (int64_t k = 0; k < length; k++)
            loss[k] = FN(sigmoid_loss)(x[k], labels[k], valid[k]);
        sdbr_add_to_pairs(&pairs, (double)FN(sum_row)(loss, length));
        used += (int64_t)FN(sum_row)(valid, length);
    }
    int64_t count = normalize ? used : batch;
    count = count > 1 ? count : 1;
    *(T *)op->operands[2] = (T)(sdbr_sum_of_pairs(&pairs) / (double)count);
    *(T *)op->operands[3] = (T)count;
    return SDBR_OK;
}

/* ints: [n, label dtype]; operands: x, t, loss. */
static int FN(sigmoid_cross_entropy_no_reduce)(const sdbr_op *op) {
    const int64_t n = op->ints[0], code = op->ints[1];
    T labels[LABEL_BLOCK], valid[LABEL_BLOCK];
    for (int64_t i = 0; i < n; i += LABEL_BLOCK) {
        const int64_t length = n - i < LABEL_BLOCK ? n - i : LABEL_BLOCK;
        const T *x = (const T *)op->operands[0] + i;
        T *loss = (T *)op->operands[2] + i;
        FN(read_labels)(op->operands[1], code, i, length, labels, valid);
        SDBR_IVDEP
        for (int64_t k = 0; k < length; k++)
            loss[k] = FN(sigmoid_loss)(x[k], labels[k], valid[k]);
    }
    return SDBR_OK;
}

/* gx = gloss valid (sigmoid(x) - t) / count; gloss is one number or one per element. */
SDBR_INLINE void FN(sigmoid_loss_grad)(const sdbr_op *op, const T *gloss, int step, T count, T *gx_all) {
    const int64_t n = op->ints[0], code = op->ints[1];
    T labels[LABEL_BLOCK], valid[LABEL_BLOCK];
    for (int64_t i = 0; i < n; i += LABEL_BLOCK) {
        const int64_t length = n - i < LABEL_BLOCK ? n - i : LABEL_BLOCK;
        const T *x = (const T *)op->operands[0] + i, *g = gloss + i * step;
        T *gx = gx_all + i;
        FN(read_labels)(op->operands[1], code, i, length, labels, valid);
        SDBR_IVDEP
        for (int64_t k = 0; k < length; k++)
            gx[k] = FN(sigmoid_loss_slope)(x[k], labels[k], valid[k], g[k * step]) / count;
    }
}

/* ints: [n, label dtype]; operands: x, t, count, gloss, gx. */
static int FN(sigmoid_cross_entropy_grad)(const sdbr_op *op) {
    FN(sigmoid_loss_grad)(op, (const T *)op->operands[3], 0, *(const T *)op->operands[2], (T *)op->operands[4]);
    return SDBR_OK;
}

/* ints: [n, label dtype]; operands: x, t, gloss, gx. */
static int FN(sigmoid_cross_entropy_no_reduce_grad)(const sdbr_op *op) {
    FN(sigmoid_loss_grad)(op, (const T *)op->operands[2], 1, (T)1, (T *)op->operands[3]);
    return SDBR_OK;
}

/* ints: [n]; operands: x, y, loss. */
static int FN(mean_squared_error)(const sdbr_op *op) {
    const int64_t n = op->ints[0];
    *(T *)op->operands[2] =
        FN(square_difference_row)((const T *)op->operands[0], (const T *)op->operands[1], n) / (T)n;
    return SDBR_OK;
}

static int FN(mean_absolute_error)(const sdbr_op *op) {
    const int64_t n = op->ints[0];
    *(T *)op->operands[2] =
        FN(absolute_difference_row)((const T *)op->operands[0], (const T *)op->operands[1], n) / (T)n;
    return SDBR_OK;
}

/* ints: [n]; operands: x, y, gloss, gx. */
static int FN(mean_squared_error_grad)(const sdbr_op *op) {
    const int64_t n = op->ints[0];
    const T *x = (const T *)op->operands[0], *y = (const T *)op->operands[1];
    const T factor = *(const T *)op->operands[2] * (T)(2.0 / (double)n);
    T *gx = (T *)op->operands[3];
    SDBR_IVDEP
    for (int64_t i = 0; i < n; i++)
        gx[i] = (x[i] - y[i]) * factor;
    return SDBR_OK;
}

static int FN(mean_absolute_error_grad)(const sdbr_op *op) {
    const int64_t n = op->ints[0];
    const T *x = (const T *)op->operands[0], *y = (const T *)op->operands[1];
    const T factor = *(const T *)op->operands[2] * (T)(1.0 / (double)n);
    T *gx = (T *)op->operands[3];
    SDBR_IVDEP
    for (int64_t i = 0; i < n; i++)
        gx[i] = FN(op_sign)(x[i] - y[i], 0, 0) * factor;
    return SDBR_OK;
}

#undef LABEL_BLOCK
