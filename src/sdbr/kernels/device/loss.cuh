/* Losses and evaluation, by dtype. Labels that are out of range are noted, and count as class 0; an ignored label
 * picks class 0, times 0, as in define-by-run. */

/* Where the extreme of a row is, of equal ones the first; if some are no numbers, the first of these. All threads of the
 * team have to ask. */
SDBR_INLINE double FN(place_of)(sdbr_strand strand, const T *x, int64_t from, int64_t n, int64_t step, T extreme) {
    double place = (double)n;
    for (int64_t k = from; k < n && place == (double)n; k += strand.phases) {
        const T v = x[k * step];
        if (v == extreme || (v != v && extreme != extreme))
            place = (double)k;
    }
    return FN(strand_first)(strand, place);
}

/* Of so many that are right: without a label that counts it is 0, and where none is ignored a quotient in T. */
SDBR_INLINE T FN(accuracy_of)(double right, double total, int64_t has_ignore) {
    return has_ignore && total == 0 ? (T)0 : has_ignore ? (T)(right / total) : (T)right / (T)total;
}

/* The slope of a softmax cross entropy: of a row whose log(sum(exp(x))) is `of_row`, at its element k. */
SDBR_INLINE T FN(cross_entropy_slope)(T x, T of_row, int64_t k, int64_t label, T factor) {
    return (FN(sdbr_exp)(x - of_row) - (T)(k == label)) * factor;
}

/* --- softmax cross entropy, and with it what belongs to it in a step -------------------------------------------------
 * ints: [outer, c, inner, label dtype, has weights, ignore label, normalize, rows at a time, parts, accuracy: has ignore,
 *        ignore label, which float is the seed];
 * operands: x, t, loss, lse, coeff, w, accuracy, seed, gloss, gx; those that are not there are anything. */
#ifndef SDBR_CROSS_ENTROPY
#define SDBR_CROSS_ENTROPY
enum {
    SDBR_PART_MEAN = 1,     /* the loss is one number, and there is coeff */
    SDBR_PART_ACCURACY = 2,
    SDBR_PART_SEED = 4,     /* a number is filled in */
    SDBR_PART_GRADIENT = 8,
    SDBR_PART_SEEDED = 16   /* gloss is the seed */
};
#endif

/* How many labels count, of all teams alike: each looks for itself. */
SDBR_INLINE double FN(labels_that_count)(sdbr_team team, const sdbr_device_op *op, const char *t, int64_t rows) {
    double count = 0;
    for (int64_t row = team.rank; row < rows; row += team.size)
        count += sdbr_label(t, op->ints[3], row) != op->ints[5];
    return FN(strand_total)(sdbr_strand_of(team, 1), count);
}

SDBR_INLINE void FN(cross_entropy_team)(sdbr_team team, const sdbr_device_op *op) {
    const int64_t *p = op->ints, n = p[1], inner = p[2], rows = p[0] * inner, parts = p[8];
    const sdbr_strand strand = sdbr_strand_of(team, p[7]);
    const int is_off = sdbr_is_off(op), is_mean = (parts & SDBR_PART_MEAN) != 0;
    const T *x = SDBR_IN(0), *w = p[4] ? SDBR_IN(5) : (const T *)0;
    const char *t = sdbr_at(op, 1);
    T *loss = SDBR_OUT(2), *lse = SDBR_OUT(3);
    T *gx = parts & SDBR_PART_GRADIENT ? SDBR_OUT(9) : (T *)0, scale = 0;
    /* Rows are read once, if there is memory for them. */
    T *kept = (T *)(team.scratch + SDBR_DEVICE_THREADS);
    const int keeps = n * strand.lanes * (int64_t)sizeof(T) <= (team.room - SDBR_DEVICE_THREADS) * 8;
    double sums[4] = {0, 0, 0, 0}; /* of the loss, labels that count; those that are right, of how many */
    if (gx) {
        const double count = p[6] ? FN(labels_that_count)(team, op, t, rows) : (double)p[0];
        const T gloss = parts & SDBR_PART_SEEDED ? (T)op->floats[p[11]] : *SDBR_IN(8);
        scale = gloss * (T)(1.0 / (count > 1 ? count : 1));
    }
    if (parts & SDBR_PART_SEED && !is_off && sdbr_first(team) == 0)
        *SDBR_OUT(7) = (T)op->floats[p[11]];
    SDBR_EACH_ROW(strand, rows) {
        SDBR_ROW_OF(strand, rows, inner, n);
        const T *of = keeps ? kept + strand.lane : x + first;
        const int64_t step = keeps ? strand.lanes : inner;
        T top = -(T)INFINITY, sum = 0, chosen = 0;
        for (int64_t k = from; k < n; k += strand.phases) {
            const T v = x[first + k * inner];
            if (keeps)
                kept[strand.lane + k * step] = v;
            top = FN(op_maximum)(top, v, (T)0, (T)0);
        }
        const int64_t label = row < rows ? sdbr_label(t, p[3], row) : p[5];
        const int valid = label != p[5];
        const int64_t at = valid && is_row ? sdbr_index_of(op, label, n, row) : 0;
        if (is_row && strand.phase == 0)
            chosen = x[first + at * inner]; /* before gx, which may lie there, is written */
        top = FN(strand_max)(strand, top);
        for (int64_t k = from; k < n; k += strand.phases)
            sum += FN(sdbr_exp)(of[k * step] - top);
        sum = FN(strand_sum)(strand, sum);
        const T of_row = FN(sdbr_log)(sum) + top;
        if (is_row && strand.phase == 0) {
            const T picked = chosen - of_row, v = -((w ? picked * w[at] : picked) * (T)valid);
            sums[0] += (double)v;
            sums[1] += valid;
            if (!is_off)
                lse[row] = of_row;
            if (!is_off && !is_mean)
                loss[row] = v;
        }
        if (parts & SDBR_PART_ACCURACY) {
            const double place = FN(place_of)(strand, of, from, n, step, top);
            const int counted = is_row && strand.phase == 0 && (!p[9] || label != p[10]);
            sums[2] += counted && place == (double)label;
            sums[3] += counted;
        }
        const T factor = (w ? w[at] : (T)1) * (T)valid * scale;
        for (int64_t k = from; gx && !is_off && k < n; k += strand.phases)
            gx[first + k * inner] = FN(cross_entropy_slope)(of[k * step], of_row, k, at, factor);
    }
    if (!(parts & (SDBR_PART_MEAN | SDBR_PART_ACCURACY)) || !FN(totals)(team, op, sums, 4) || team.rank || is_off)
        return;
    if (is_mean) {
        const double count = p[6] ? sums[1] : (double)p[0], coeff = 1.0 / (count > 1 ? count : 1);
        *loss = (T)((double)(T)sums[0] * coeff);
        *SDBR_OUT(4) = (T)coeff;
    }
    if (parts & SDBR_PART_ACCURACY)
        *SDBR_OUT(6) = FN(accuracy_of)(sums[2], sums[3], p[9]);
}
SDBR_INLINE void FN(cross_entropy_roomy_team)(sdbr_team team, const sdbr_device_op *op) {
    FN(cross_entropy_team)(team, op);
}

/* --- its gradient alone: ints: [outer, c, inner, label dtype, has weights, ignore label] ------------------------------ */

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
        gx[i] = FN(cross_entropy_slope)(x[i], lse[row], k, at, factor);
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

/* ints: [n, label dtype, normalize, batch]; operands: x, t, loss, count. */
SDBR_INLINE void FN(sigmoid_cross_entropy_team)(sdbr_team team, const sdbr_device_op *op) {
    double sums[2] = {0, 0};
    for (int64_t i = sdbr_first(team); i < op->ints[0]; i += sdbr_stride(team)) {
        const int64_t label = sdbr_label(sdbr_at(op, 1), op->ints[1], i);
        const T valid = (T)(label != -1);
        sums[0] += (double)FN(sigmoid_loss)(SDBR_IN(0)[i], (T)label, valid);
        sums[1] += (double)valid;
    }
    if (!FN(totals)(team, op, sums, 2) || team.rank || sdbr_is_off(op))
        return;
    const double used = op->ints[2] ? sums[1] : (double)op->ints[3], count = used > 1 ? used : 1;
    *SDBR_OUT(2) = (T)(sums[0] / count);
    *SDBR_OUT(3) = (T)count;
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

/* ints: [n]; operands: x, y, loss. */
#define SDBR_MEAN_OF(name, of) \
    SDBR_INLINE void FN(name##_team)(sdbr_team team, const sdbr_device_op *op) { \
        const int64_t n = op->ints[0]; \
        double sum = 0; \
        for (int64_t i = sdbr_first(team); i < n; i += sdbr_stride(team)) { \
            const T d = SDBR_IN(0)[i] - SDBR_IN(1)[i]; \
            sum += (double)(of); \
        } \
        if (FN(totals)(team, op, &sum, 1) && team.rank == 0 && !sdbr_is_off(op)) \
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

/* ints: [outer, c, inner, rows at a time]; operands: x, y. */
#define SDBR_PLACES_OF(name, start, further, of_strand) \
    SDBR_INLINE void FN(name##_team)(sdbr_team team, const sdbr_device_op *op) { \
        const int64_t n = op->ints[1], inner = op->ints[2], rows = op->ints[0] * inner; \
        const sdbr_strand strand = sdbr_strand_of(team, op->ints[3]); \
        SDBR_EACH_ROW(strand, rows) { \
            SDBR_ROW_OF(strand, rows, inner, n); \
            const T *x = SDBR_IN(0) + first; \
            T extreme = start; \
            for (int64_t k = from; k < n; k += strand.phases) \
                extreme = FN(further)(extreme, x[k * inner], (T)0, (T)0); \
            extreme = FN(of_strand)(strand, extreme); \
            const double place = FN(place_of)(strand, x, from, n, inner, extreme); \
            if (is_row && strand.phase == 0) \
                ((int32_t *)sdbr_at(op, 1))[row] = (int32_t)place; \
        } \
    }

SDBR_PLACES_OF(argmax, -(T)INFINITY, op_maximum, strand_max)
SDBR_PLACES_OF(argmin, (T)INFINITY, op_minimum, strand_min)
#undef SDBR_PLACES_OF

/* ints: [outer, c, inner, label dtype, has ignore, ignore label, rows at a time]; operands: x, t, y. */
SDBR_INLINE void FN(accuracy_team)(sdbr_team team, const sdbr_device_op *op) {
    const int64_t *p = op->ints, n = p[1], inner = p[2], rows = p[0] * inner;
    const sdbr_strand strand = sdbr_strand_of(team, p[6]);
    const T *x = SDBR_IN(0);
    double sums[2] = {0, 0};
    SDBR_EACH_ROW(strand, rows) {
        SDBR_ROW_OF(strand, rows, inner, n);
        T top = -(T)INFINITY;
        for (int64_t k = from; k < n; k += strand.phases)
            top = FN(op_maximum)(top, x[first + k * inner], (T)0, (T)0);
        top = FN(strand_max)(strand, top);
        const double place = FN(place_of)(strand, x + first, from, n, inner, top);
        if (is_row && strand.phase == 0) {
            const int64_t label = sdbr_label(sdbr_at(op, 1), p[3], row);
            const int counted = !p[4] || label != p[5];
            sums[0] += counted && place == (double)label;
            sums[1] += counted;
        }
    }
    if (FN(totals)(team, op, sums, 2) && team.rank == 0 && !sdbr_is_off(op))
        *SDBR_OUT(2) = FN(accuracy_of)(sums[0], sums[1], p[4]);
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
