/* Connectionist temporal classification, by dtype, in the logarithm.
 * Lengths are read once, for another thread may change them.
 * ints: [times, batch, labels, length, blank]. The path of a sample has 2 length + 1 places. */

/* The logarithm of no probability at all. */
#define NEVER ((T)-1e10)

/* exp(x) / sum(exp(x)) over n labels. */
SDBR_INLINE void FN(ctc_softmax)(const T *x, T *y, int64_t n) {
    T top = x[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        top = (x[i] > top) | (x[i] != x[i]) ? x[i] : top;
    SDBR_IVDEP
    for (int64_t i = 0; i < n; i++)
        y[i] = FN(sdbr_exp)(x[i] - top);
    for (int64_t i = 0; i < n; i++)
        sum += y[i];
    SDBR_IVDEP
    for (int64_t i = 0; i < n; i++)
        y[i] /= sum;
}

SDBR_INLINE T FN(ctc_log)(T y) {
    const T log = FN(sdbr_log)(y);
    return FABS(log) < (T)INFINITY ? log : NEVER; /* of NaN, too */
}

/* Of two numbers: no logarithm here is NaN. */
SDBR_INLINE T FN(ctc_larger)(T a, T b) { return a > b ? a : b; }

/* exp(x), and 0 where it is nothing beside 1: results close to 0 would be denormal, and slow. */
SDBR_INLINE T FN(ctc_exp)(T x) {
    const T e = FN(sdbr_exp)(x < (T)-80 ? (T)-80 : x);
    return x < (T)-80 ? (T)0 : e;
}

/* log(exp(a) + exp(b) + exp(c)) */
SDBR_INLINE T FN(ctc_add)(T a, T b, T c) {
    const T top = FN(ctc_larger)(FN(ctc_larger)(a, b), c);
    const T sum = FN(ctc_exp)(a - top) + FN(ctc_exp)(b - top) + FN(ctc_exp)(c - top);
    return top + FN(sdbr_log)(sum);
}

/* One step of ctc_walk: `here` holds the labels' probabilities, then what leads to each place. */
static void FN(ctc_step)(const T *restrict before, const T *restrict skips, T *restrict here, T *restrict after,
                         int64_t places) {
    for (int64_t k = 0; k < places; k++) {
        const T last = before[k], skip = skips[k];
        const T sum = FN(ctc_add)(before[k + 2], before[k + 1], skip > 0 ? last : NEVER);
        const T own = FN(ctc_log)(here[k]);
        here[k] = sum;
        after[k + 2] = sum + own;
    }
}

SDBR_INLINE T FN(ctc_total)(const T *paths, int64_t n) {
    T top = paths[0], sum = 0;
    for (int64_t k = 1; k < n; k++)
        top = FN(ctc_larger)(top, paths[k]);
    for (int64_t k = 0; k < n; k++)
        sum += FN(ctc_exp)(paths[k] - top);
    return top + FN(sdbr_log)(sum);
}

/* Goes along the path of a sample, from its start or (with `back`) from its end: `paths` gets the
 * labels' own log-probabilities and what leads to each place at each time; on the way back only the
 * latter, added. `work` holds four rows of places + 2: the probabilities before and after a step,
 * behind two places that nothing leads to; where the place before the last one may be left out;
 * what is read and written out of order. */
static void FN(ctc_walk)(const sdbr_op *op, const T *y, const int32_t *t, int64_t n, int64_t m, T *paths, T *work,
                         int back) {
    const int64_t times = op->ints[0], batch = op->ints[1], labels = op->ints[2], blank = op->ints[4];
    const int64_t places = 2 * op->ints[3] + 1, length = 2 * m + 1;
    const int64_t turn = sdbr_path_turn(places, length), turn_time = sdbr_path_turn(times, n);
    T *before = work, *after = before + places + 2, *skips = after + places + 2, *here = skips + places + 2;
    for (int64_t k = 0; k < places + 2; k++)
        before[k] = after[k] = NEVER;
    before[2] = 0;
    for (int64_t k = 0; k < places; k++) {
        const int64_t at = back ? sdbr_path_reverse(k, places, turn) : k;
        const int64_t from = back ? sdbr_path_reverse(k < 2 ? k : k - 2, places, turn) : k - 2;
        skips[k] = (T)(k >= 2 && sdbr_path_label(t, blank, at) != sdbr_path_label(t, blank, from));
    }
    for (int64_t i = 0; i < times; i++) {
        const int64_t s = back ? sdbr_path_reverse(i, times, turn_time) : i;
        const T *probability = y + s * batch * labels;
        T *row = paths + s * batch * places;
        for (int64_t k = 0; k < places; k++) {
            const int64_t at = back ? sdbr_path_reverse(k, places, turn) : k;
            here[k] = probability[sdbr_wrap(sdbr_path_label(t, blank, at), labels)];
        }
        FN(ctc_step)(before, skips, here, after, places);
        for (int64_t k = length < 0 ? 0 : length; k < places; k++) { /* behind the path */
            after[k + 2] = NEVER + (after[k + 2] - here[k]);
            here[k] = NEVER;
        }
        if (back)
            for (int64_t k = 0; k < places; k++)
                row[sdbr_path_reverse(k, places, turn)] += here[k];
        else
            memcpy(row, after + 2, (size_t)places * sizeof(T));
        T *next = before;
        before = after;
        after = next;
    }
}

/* operands: x, n, m, t, loss, y, paths, work. */
static int FN(ctc)(const sdbr_op *op) {
    const int64_t times = op->ints[0], batch = op->ints[1], labels = op->ints[2], l = op->ints[3];
    const int64_t places = 2 * l + 1;
    const T *x = (const T *)op->operands[0];
    const volatile int32_t *n = (const int32_t *)op->operands[1], *m = (const int32_t *)op->operands[2];
    char *labels_of = op->operands[3];
    T *loss = (T *)op->operands[4], *y = (T *)op->operands[5], *paths = (T *)op->operands[6];
    const int status = sdbr_own_labels(op, &labels_of, SDBR_I4, batch * l, labels, 0, 0);
    const int32_t *t = (const int32_t *)labels_of;
    if (status != SDBR_OK)
        return status;
    for (int64_t i = 0; i < times * batch; i++)
        FN(ctc_softmax)(x + i * labels, y + i * labels, labels);
    for (int64_t b = 0; b < batch; b++) {
        const int64_t times_of = n[b], length_of = m[b];
        for (int back = 0; back < 2; back++)
            FN(ctc_walk)(op, y + b * labels, t + b * l, times_of, length_of, paths + b * places, (T *)op->operands[7], back);
        loss[b] = -FN(ctc_total)(paths + b * places, places);
    }
    return SDBR_OK;
}

/* operands: y, paths, n, m, t, gloss, gx. */
static int FN(ctc_grad)(const sdbr_op *op) {
    const int64_t times = op->ints[0], batch = op->ints[1], labels = op->ints[2], l = op->ints[3];
    const int64_t places = 2 * l + 1, blank = op->ints[4];
    const T *y = (const T *)op->operands[0], *paths = (const T *)op->operands[1];
    const volatile int32_t *n = (const int32_t *)op->operands[2], *m = (const int32_t *)op->operands[3];
    char *labels_of = op->operands[4];
    const T *gloss = (const T *)op->operands[5];
    T *gx = (T *)op->operands[6];
    const int status = sdbr_own_labels(op, &labels_of, SDBR_I4, batch * l, labels, 0, 0);
    const int32_t *t = (const int32_t *)labels_of;
    if (status != SDBR_OK)
        return status;
    memcpy(gx, y, (size_t)(times * batch * labels) * sizeof(T));
    for (int64_t b = 0; b < batch; b++) {
        const T total = FN(ctc_total)(paths + b * places, places);
        const int64_t times_of = n[b];
        int64_t length = 2 * (int64_t)m[b] + 1; /* the end of a slice: from the end if negative */
        length = length < 0 ? length + places : length;
        length = length > places ? places : length;
        for (int64_t s = 0; s < times; s++) {
            const T *row = paths + (s * batch + b) * places, inside = (T)(s < times_of);
            T *g = gx + (s * batch + b) * labels;
            for (int64_t k = 0; k < length; k++)
                g[sdbr_wrap(sdbr_path_label(t + b * l, blank, k), labels)] -= FN(ctc_exp)(row[k] - total);
            for (int64_t i = 0; i < labels; i++)
                g[i] = g[i] * gloss[b] * inside;
        }
    }
    return SDBR_OK;
}

#undef NEVER
