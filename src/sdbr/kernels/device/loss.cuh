/* Losses and evaluation, by dtype. Labels that are out of range are noted, and count as class 0; an ignored label
 * picks class 0, times 0, as in define-by-run. */

/* --- softmax cross entropy: ints: [outer, c, inner, label dtype, has weights, ignore label, normalize, rows at a time];
 *     operands: x, t, w when given, ... ---------------------------------------------------------------------------- */

/* lse = log(sum(exp(x))); operands: ..., lse at place 3 + has weights. */
SDBR_INLINE void FN(log_sum_exp_team)(sdbr_team team, const sdbr_device_op *op) {
    const int64_t n = op->ints[1], inner = op->ints[2], rows = op->ints[0] * inner;
    const sdbr_strand strand = sdbr_strand_of(team, op->ints[7]);
    T *lse = op->ints[4] ? SDBR_OUT(4) : SDBR_OUT(3);
    SDBR_EACH_ROW(strand, rows) {
        SDBR_ROW_OF(strand, rows, inner, n);
        T top;
        const T sum = FN(strand_exp_sum)(strand, SDBR_IN(0) + first, from, n, inner, &top);
        if (is_row && strand.phase == 0)
            lse[row] = FN(sdbr_log)(sum) + top;
    }
}

/* -w[t] (x[t] - lse) of one row. */
SDBR_INLINE T FN(cross_entropy_of)(const sdbr_device_op *op, const T *w, const T *lse, int64_t row, int *valid) {
    const int64_t c = op->ints[1], inner = op->ints[2];
    const int64_t label = sdbr_label(sdbr_at(op, 1), op->ints[3], row);
    *valid = label != op->ints[5];
    const int64_t at = *valid ? sdbr_index_of(op, label, c, row) : 0;
    const T p = SDBR_IN(0)[(row / inner * c + at) * inner + row % inner] - lse[row];
    return -((w ? p * w[at] : p) * (T)*valid);
}

/* operands: x, t, w when given, loss, lse, coeff; by one team, after lse. */
SDBR_INLINE void FN(softmax_cross_entropy_team)(sdbr_team team, const sdbr_device_op *op) {
    const int64_t rows = op->ints[0] * op->ints[2], weighted = op->ints[4];
    const T *w = weighted ? SDBR_IN(2) : (const T *)0, *lse = weighted ? SDBR_IN(4) : SDBR_IN(3);
    double sum = 0, count = 0;
    for (int64_t row = team.rank; row < rows; row += team.size) {
        int valid;
        sum += (double)FN(cross_entropy_of)(op, w, lse, row, &valid);
        count += valid;
    }
    const sdbr_strand all = sdbr_strand_of(team, 1);
    sum = FN(strand_total)(all, sum);
    count = op->ints[6] ? FN(strand_total)(all, count) : (double)op->ints[0];
    if (team.rank == 0) {
        const double coeff = 1.0 / (count > 1 ? count : 1);
        *(weighted ? SDBR_OUT(3) : SDBR_OUT(2)) = (T)((double)(T)sum * coeff);
        *(weighted ? SDBR_OUT(5) : SDBR_OUT(4)) = (T)coeff;
    }
}

/* operands: x, t, w when given, loss, lse. */
SDBR_INLINE void FN(softmax_cross_entropy_no_reduce_team)(sdbr_team team, const sdbr_device_op *op) {
    const int64_t rows = op->ints[0] * op->ints[2], weighted = op->ints[4];
    const T *w = weighted ? SDBR_IN(2) : (const T *)0, *lse = weighted ? SDBR_IN(4) : SDBR_IN(3);
    T *loss = weighted ? SDBR_OUT(3) : SDBR_OUT(2);
    for (int64_t row = sdbr_first(team); row < rows; row += sdbr_stride(team)) {
        int valid;
        loss[row] = FN(cross_entropy_of)(op, w, lse, row, &valid);
    }
}

/* gx = (exp(x - lse) - onehot(t)) w[t] valid scale; scale is one number or one per row. */
SDBR_INLINE void FN(cross_entropy_back)(sdbr_team team, const sdbr_device_op *op, const T *w, const T *scale, T common,
                                        T *gx) {
    const int64_t c = op->ints[1], inner = op->ints[2], size = op->ints[0] * c * inner;
    const T *x = SDBR_IN(0), *lse = SDBR_IN(2);
    const char *t = sdbr_at(op, 1);
    for (int64_t i = sdbr_first(team); i < size; i += sdbr_stride(team)) {
        const int64_t row = i / (c * inner) * inner + i % inner, k = i / inner % c;
        const int64_t label = sdbr_label(t, op->ints[3], row);
        const int valid = label != op->ints[5];
        const int64_t at = valid ? sdbr_index_of(op, label, c, row) : 0;
        const T factor = (w ? w[at] : (T)1) * (T)valid * (scale ? scale[row] : common);
        gx[i] = (FN(sdbr_exp)(x[i] - lse[row]) - (T)(k == at)) * factor;
    }
}

/* operands: x, t, lse, coeff, gloss, w when given, gx. */
SDBR_INLINE void FN(softmax_cross_entropy_grad_team)(sdbr_team team, const sdbr_device_op *op) {
    const T common = *SDBR_IN(4) * *SDBR_IN(3);
    if (op->ints[4])
        FN(cross_entropy_back)(team, op, SDBR_IN(5), (const T *)0, common, SDBR_OUT(6));
    else
        FN(cross_entropy_back)(team, op, (const T *)0, (const T *)0, common, SDBR_OUT(5));
}

/* operands: x, t, lse, gloss, w when given, gx. */
SDBR_INLINE void FN(softmax_cross_entropy_no_reduce_grad_team)(sdbr_team team, const sdbr_device_op *op) {
    if (op->ints[4])
        FN(cross_entropy_back)(team, op, SDBR_IN(4), SDBR_IN(3), (T)0, SDBR_OUT(5));
    else
        FN(cross_entropy_back)(team, op, (const T *)0, SDBR_IN(3), (T)0, SDBR_OUT(4));
}

/* --- losses that treat each element alike ------------------------------------------------------------------------- */

/* ints: [n, label dtype, normalize, batch]; operands: x, t, loss, count; by one team. */
SDBR_INLINE void FN(sigmoid_cross_entropy_team)(sdbr_team team, const sdbr_device_op *op) {
    double sum = 0, used = 0;
    for (int64_t i = team.rank; i < op->ints[0]; i += team.size) {
        const int64_t label = sdbr_label(sdbr_at(op, 1), op->ints[1], i);
        const T valid = (T)(label != -1);
        sum += (double)FN(sigmoid_loss)(SDBR_IN(0)[i], (T)label, valid);
        used += (double)valid;
    }
    const sdbr_strand all = sdbr_strand_of(team, 1);
    sum = FN(strand_total)(all, sum);
    used = op->ints[2] ? FN(strand_total)(all, used) : (double)op->ints[3];
    if (team.rank == 0) {
        const double count = used > 1 ? used : 1;
        *SDBR_OUT(2) = (T)(sum / count);
        *SDBR_OUT(3) = (T)count;
    }
}

/* ints: [n, label dtype]; operands: x, t, loss. */
SDBR_INLINE void FN(sigmoid_cross_entropy_no_reduce_team)(sdbr_team team, const sdbr_device_op *op) {
    for (int64_t i = sdbr_first(team); i < op->ints[0]; i += sdbr_stride(team)) {
        const int64_t label = sdbr_label(sdbr_at(op, 1), op->ints[1], i);
        SDBR_OUT(2)[i] = FN(sigmoid_loss)(SDBR_IN(0)[i], (T)label, (T)(label != -1));
    }
}

/* ints: [n, label dtype]; operands: x, t, count, gloss, gx. */
SDBR_INLINE void FN(sigmoid_cross_entropy_grad_team)(sdbr_team team, const sdbr_device_op *op) {
    const T count = *SDBR_IN(2), gloss = *SDBR_IN(3);
    for (int64_t i = sdbr_first(team); i < op->ints[0]; i += sdbr_stride(team)) {
        const int64_t label = sdbr_label(sdbr_at(op, 1), op->ints[1], i);
        SDBR_OUT(4)[i] = FN(sigmoid_loss_slope)(SDBR_IN(0)[i], (T)label, (T)(label != -1), gloss) / count;
    }
}

/* ints: [n, label dtype]; operands: x, t, gloss, gx. */
SDBR_INLINE void FN(sigmoid_cross_entropy_no_reduce_grad_team)(sdbr_team team, const sdbr_device_op *op) {
    for (int64_t i = sdbr_first(team); i < op->ints[0]; i += sdbr_stride(team)) {
        const int64_t label = sdbr_label(sdbr_at(op, 1), op->ints[1], i);
        SDBR_OUT(3)[i] =
            FN(sigmoid_loss_slope)(SDBR_IN(0)[i], (T)label, (T)(label != -1), SDBR_IN(2)[i]);
    }
}

/* ints: [n]; operands: x, y, loss; by one team. */
#define SDBR_MEAN_OF(name, of) \
    SDBR_INLINE void FN(name##_team)(sdbr_team team, const sdbr_device_op *op) { \
        const int64_t n = op->ints[0]; \
        double sum = 0; \
        for (int64_t i = team.rank; i < n; i += team.size) { \
            const T d = SDBR_IN(0)[i] - SDBR_IN(1)[i]; \
            sum += (double)(of); \
        } \
        sum = FN(strand_total)(sdbr_strand_of(team, 1), sum); \
        if (team.rank == 0) \
            *SDBR_OUT(2) = (T)sum / (T)n; \
    }

/* ints: [n]; operands: x, y, gloss, gx. */
#define SDBR_MEAN_OF_GRAD(name, scale, of) \
    SDBR_INLINE void FN(name##_team)(sdbr_team team, const sdbr_device_op *op) { \
        const int64_t n = op->ints[0]; \
        const T factor = *SDBR_IN(2) * (T)((scale) / (double)n); \
        for (int64_t i = sdbr_first(team); i < n; i += sdbr_stride(team)) { \
            const T d = SDBR_IN(0)[i] - SDBR_IN(1)[i]; \
            SDBR_OUT(3)[i] = (of) * factor; \
        } \
    }

SDBR_MEAN_OF(mean_squared_error, d * d)
SDBR_MEAN_OF(mean_absolute_error, FABS(d))
SDBR_MEAN_OF_GRAD(mean_squared_error_grad, 2.0, d)
SDBR_MEAN_OF_GRAD(mean_absolute_error_grad, 1.0, FN(op_sign)(d, (T)0, (T)0))
#undef SDBR_MEAN_OF
#undef SDBR_MEAN_OF_GRAD

/* --- evaluation, and picking by label --------------------------------------------------------------------------------- */

/* The place of the first of the largest of a row, or of the first NaN: of one thread. */
SDBR_INLINE int64_t FN(place_of_extreme)(const T *x, int64_t n, int64_t inner, T sign) {
    T best = sign * x[0];
    int64_t at = 0;
    for (int64_t k = 1; k < n && best == best; k++) {
        const T v = sign * x[k * inner];
        if (!(v <= best)) {
            best = v;
            at = k;
        }
    }
    return at;
}

/* ints: [outer, c, inner]; operands: x, y. */
#define SDBR_PLACES_OF(name, sign) \
    SDBR_INLINE void FN(name##_team)(sdbr_team team, const sdbr_device_op *op) { \
        const int64_t c = op->ints[1], inner = op->ints[2], rows = op->ints[0] * inner; \
        int32_t *y = (int32_t *)sdbr_at(op, 1); \
        for (int64_t row = sdbr_first(team); row < rows; row += sdbr_stride(team)) \
            y[row] = (int32_t)FN(place_of_extreme)(SDBR_IN(0) + row / inner * c * inner + row % inner, c, inner, sign); \
    }

SDBR_PLACES_OF(argmax, (T)1)
SDBR_PLACES_OF(argmin, (T)-1)
#undef SDBR_PLACES_OF

/* ints: [outer, c, inner, label dtype, has ignore, ignore label]; operands: x, t, y; by one team. */
SDBR_INLINE void FN(accuracy_team)(sdbr_team team, const sdbr_device_op *op) {
    const int64_t c = op->ints[1], inner = op->ints[2], rows = op->ints[0] * inner, has_ignore = op->ints[4];
    double right = 0, total = 0;
    for (int64_t row = team.rank; row < rows; row += team.size) {
        const int64_t label = sdbr_label(sdbr_at(op, 1), op->ints[3], row);
        const int counted = !has_ignore | (label != op->ints[5]);
        const T *x = SDBR_IN(0) + row / inner * c * inner + row % inner;
        right += counted && FN(place_of_extreme)(x, c, inner, (T)1) == label;
        total += counted;
    }
    const sdbr_strand all = sdbr_strand_of(team, 1);
    right = FN(strand_total)(all, right);
    total = FN(strand_total)(all, total);
    if (team.rank == 0)
        *SDBR_OUT(2) = has_ignore && total == 0 ? (T)0 : has_ignore ? (T)(right / total) : (T)right / (T)total;
}

/* ints: [n, c, label dtype]; operands: x, t, y. */
SDBR_INLINE void FN(select_item_team)(sdbr_team team, const sdbr_device_op *op) {
    const int64_t n = op->ints[0], c = op->ints[1];
    for (int64_t i = sdbr_first(team); i < n; i += sdbr_stride(team)) {
        const int64_t at = sdbr_index_of(op, sdbr_label(sdbr_at(op, 1), op->ints[2], i), c, i);
        SDBR_OUT(2)[i] = c ? SDBR_IN(0)[i * c + at] : (T)0;
    }
}

/* ints as above; operands: x, t, y. */
SDBR_INLINE void FN(negate_item_team)(sdbr_team team, const sdbr_device_op *op) {
    const int64_t n = op->ints[0], c = op->ints[1];
    for (int64_t i = sdbr_first(team); i < n * c; i += sdbr_stride(team)) {
        const int64_t at = sdbr_index_of(op, sdbr_label(sdbr_at(op, 1), op->ints[2], i / c), c, i / c);
        const T v = SDBR_IN(0)[i];
        SDBR_OUT(2)[i] = i % c == at ? -v : v;
    }
}

/* ints as above; operands: t, gy, gx. */
SDBR_INLINE void FN(select_item_grad_team)(sdbr_team team, const sdbr_device_op *op) {
    const int64_t n = op->ints[0], c = op->ints[1];
    for (int64_t i = sdbr_first(team); i < n * c; i += sdbr_stride(team)) {
        const int64_t at = sdbr_index_of(op, sdbr_label(sdbr_at(op, 0), op->ints[2], i / c), c, i / c);
        SDBR_OUT(2)[i] = i % c == at ? SDBR_IN(1)[i / c] : (T)0;
    }
}
