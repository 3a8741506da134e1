/* Running sums and products of x[outer, n, inner] along n, by dtype; C-contiguous. */

/* Columns whose products are kept on the stack at a time. */
#define PROD_BLOCK 512

/* ints: [outer, n, inner, reverse]; operands: x, y. */
static int FN(cumsum)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], n = op->ints[1], inner = op->ints[2], reverse = op->ints[3];
    const int64_t first = reverse ? n - 1 : 0, step = reverse ? -inner : inner;
    const T *x = (const T *)op->operands[0];
    T *y = (T *)op->operands[1];
    for (int64_t o = 0; n > 0 && o < outer; o++, x += n * inner, y += n * inner) {
        const T *from = x + first * inner;
        T *to = y + first * inner;
        for (int64_t c = 0; c < inner; c++)
            to[c] = from[c];
        for (int64_t i = 1; i < n; i++) {
            from += step;
            to += step;
            SDBR_IVDEP
            for (int64_t c = 0; c < inner; c++)
                to[c] = to[c - step] + from[c];
        }
    }
    return SDBR_OK;
}

/* ints: [outer, n, inner]; operands: x, y. */
static int FN(cumprod)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], n = op->ints[1], inner = op->ints[2];
    const T *x = (const T *)op->operands[0];
    T *y = (T *)op->operands[1];
    for (int64_t o = 0; n > 0 && o < outer; o++, x += n * inner, y += n * inner) {
        for (int64_t c = 0; c < inner; c++)
            y[c] = x[c];
        for (int64_t i = inner; i < n * inner; i += inner) {
            SDBR_IVDEP
            for (int64_t c = 0; c < inner; c++)
                y[i + c] = y[i - inner + c] * x[i + c];
        }
    }
    return SDBR_OK;
}

/* gx = y before it * z, where z = gy + x after it * z after it; gx holds z until all of it is there.
 * ints: [outer, n, inner]; operands: x, y, gy, gx. */
static int FN(cumprod_grad)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], n = op->ints[1], inner = op->ints[2];
    const T *x = (const T *)op->operands[0], *y = (const T *)op->operands[1], *gy = (const T *)op->operands[2];
    T *gx = (T *)op->operands[3];
    for (int64_t o = 0; n > 0 && o < outer; o++) {
        const int64_t last = (n - 1) * inner;
        for (int64_t c = 0; c < inner; c++)
            gx[last + c] = gy[last + c];
        for (int64_t i = last - inner; i >= 0; i -= inner) {
            SDBR_IVDEP
            for (int64_t c = 0; c < inner; c++)
                gx[i + c] = gy[i + c] + x[i + inner + c] * gx[i + inner + c];
        }
        SDBR_IVDEP
        for (int64_t i = inner; i < n * inner; i++)
            gx[i] *= y[i - inner];
        x += n * inner;
        y += n * inner;
        gy += n * inner;
        gx += n * inner;
    }
    return SDBR_OK;
}

/* ints: [outer, n, inner]; operands: x, y[outer, inner]. */
static int FN(prod)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], n = op->ints[1], inner = op->ints[2];
    const T *x = (const T *)op->operands[0];
    T *y = (T *)op->operands[1];
    for (int64_t o = 0; o < outer; o++, y += inner) {
        if (inner == 1) { /* in a register: memory takes longer than a product */
            T product = 1;
            for (int64_t i = 0; i < n; i++)
                product *= x[i];
            *y = product;
            x += n;
            continue;
        }
        for (int64_t c = 0; c < inner; c++)
            y[c] = 1;
        for (int64_t i = 0; i < n; i++, x += inner) {
            SDBR_IVDEP
            for (int64_t c = 0; c < inner; c++)
                y[c] *= x[c];
        }
    }
    return SDBR_OK;
}

/* gx = the product of all before it * the product of all after it * gy.
 * ints: [outer, n, inner]; operands: x, gy[outer, inner], gx. */
static int FN(prod_grad)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], n = op->ints[1], inner = op->ints[2];
    const T *x = (const T *)op->operands[0], *gy = (const T *)op->operands[1];
    T *gx = (T *)op->operands[2], after[PROD_BLOCK];
    for (int64_t o = 0; n > 0 && o < outer; o++, x += n * inner, gx += n * inner, gy += inner)
        for (int64_t j = 0; j < inner; j += PROD_BLOCK) {
            const int64_t width = inner - j < PROD_BLOCK ? inner - j : PROD_BLOCK;
            for (int64_t c = 0; c < width; c++) {
                gx[j + c] = 1;
                after[c] = 1;
            }
            for (int64_t i = inner + j; i < n * inner; i += inner) {
                SDBR_IVDEP
                for (int64_t c = 0; c < width; c++)
                    gx[i + c] = gx[i - inner + c] * x[i - inner + c];
            }
            for (int64_t i = (n - 1) * inner + j; i >= 0; i -= inner) {
                SDBR_IVDEP
                for (int64_t c = 0; c < width; c++) {
                    gx[i + c] = gx[i + c] * after[c] * gy[j + c];
                    after[c] *= x[i + c];
                }
            }
        }
    return SDBR_OK;
}

#undef PROD_BLOCK
