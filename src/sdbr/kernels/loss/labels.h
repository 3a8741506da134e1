/* Losses on labels, by dtype: softmax_cross_entropy, accuracy, select_item. C-contiguous operands.
 * Labels are copied and checked before anything is written. An ignored label picks class 0 and its term is
 * multiplied by 0, as in define-by-run, so NaN and infinities spread in the same way. */

/* -w[t] (x[t] - lse) of position i = (o, j), 0 (or NaN) when ignored; lse is log(sum(exp(x))). */
SDBR_INLINE T FN(cross_entropy_at)(const T *x, T lse, const char *t, int64_t code, const T *w, int64_t ignore,
                                   int64_t o, int64_t j, int64_t c, int64_t inner) {
    const int64_t label = sdbr_label(t, code, o * inner + j);
    const int valid = label != ignore;
    const int64_t at = valid ? sdbr_wrap(label, c) : 0;
    T p = x[(o * c + at) * inner + j] - lse;
    if (w)
        p *= w[at];
    return -(p * (T)valid);
}

/* y[outer, inner] = log(sum(exp(x))) of x[outer, n, inner], n > 0. */
static void FN(log_sum_exp_all)(const T *x, T *y, int64_t outer, int64_t n, int64_t inner) {
    if (inner == 1) {
        const int64_t group = FN(rows_at_once)(n);
        for (int64_t o = 0; o < outer; o += group)
            FN(log_sums)(x + o * n, y + o, outer - o < group ? outer - o : group, n);
        return;
    }
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < inner; j += COLUMN_BLOCK)
            FN(log_sums_of_columns)(x + o * n * inner + j, y + o * inner + j, n, inner,
                                    inner - j < COLUMN_BLOCK ? inner - j : COLUMN_BLOCK);
}

static int64_t FN(cross_entropy_shares)(const sdbr_op *op) {
    const int64_t most = op->ints[0] * op->ints[1] * op->ints[2] / SDBR_SCORES;
    return most < op->ints[0] ? most : op->ints[0];
}

/* lse of some of the samples. */
static void FN(share_log_sums)(const sdbr_op *op, int64_t part, int64_t parts) {
    const int64_t outer = op->ints[0], c = op->ints[1], inner = op->ints[2];
    const int64_t from = outer * part / parts, to = outer * (part + 1) / parts;
    T *lse = (T *)op->operands[3 + op->ints[4]];
    FN(log_sum_exp_all)((const T *)op->operands[0] + from * c * inner, lse + from * inner, to - from, c, inner);
}

static void FN(log_sums_shared)(const sdbr_op *op) {
    if (op->ints[1] > 0)
        sdbr_share(op, FN(cross_entropy_shares)(op), FN(share_log_sums));
}

/* Terms of a loss that are added one after another. */
#define TERMS 64

/* ints: [outer, c, inner, label dtype, has weights, ignore_label, normalize];
 * operands: x, t, w when given, loss, lse, coeff. */
static int FN(softmax_cross_entropy)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], c = op->ints[1], inner = op->ints[2], code = op->ints[3];
    const int64_t weighted = op->ints[4], ignore = op->ints[5], normalize = op->ints[6];
    const T *x = (const T *)op->operands[0], *w = weighted ? (const T *)op->operands[2] : NULL;
    char *t = op->operands[1], **outs = op->operands + 2 + weighted;
    T *lse = (T *)outs[1];
    const int status = sdbr_own_labels(op, &t, code, outer * inner, c, 1, ignore);
    if (status != SDBR_OK)
        return status;
    FN(log_sums_shared)(op);
    sdbr_pairs pairs;
    int64_t count = 0;
    pairs.count = 0;
    /* The rows of one sample per position, else the positions of one sample after the other. */
    const int64_t samples = inner == 1 ? 1 : outer, positions = inner == 1 ? outer : inner;
    for (int64_t o = 0; o < samples; o++)
        for (int64_t j = 0; j < positions; j += TERMS) {
            const int64_t end = positions - j < TERMS ? positions : j + TERMS;
            double some = 0;
            for (int64_t k = j; k < end; k++) {
                const int64_t sample = inner == 1 ? k : o, at = inner == 1 ? 0 : k, i = sample * inner + at;
                some += (double)FN(cross_entropy_at)(x, lse[i], t, code, w, ignore, sample, at, c, inner);
                count += sdbr_label(t, code, i) != ignore;
            }
            sdbr_add_to_pairs(&pairs, some);
        }
    const double sum = sdbr_sum_of_pairs(&pairs);
    count = normalize ? count : outer;
    const double coeff = 1.0 / (double)(count > 1 ? count : 1);
    *(T *)outs[0] = (T)((double)(T)sum * coeff);
    *(T *)outs[2] = (T)coeff;
    return SDBR_OK;
}

#undef TERMS

/* ints as above without normalize; operands: x, t, w when given, loss, lse. */
static int FN(softmax_cross_entropy_no_reduce)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], c = op->ints[1], inner = op->ints[2], code = op->ints[3];
    const int64_t weighted = op->ints[4], ignore = op->ints[5];
    const T *x = (const T *)op->operands[0], *w = weighted ? (const T *)op->operands[2] : NULL;
    char *t = op->operands[1];
    T *loss = (T *)op->operands[2 + weighted], *lse = (T *)op->operands[3 + weighted];
    const int status = sdbr_own_labels(op, &t, code, outer * inner, c, 1, ignore);
    if (status != SDBR_OK)
        return status;
    FN(log_sums_shared)(op);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < inner; j++)
            loss[o * inner + j] = FN(cross_entropy_at)(x, lse[o * inner + j], t, code, w, ignore, o, j, c, inner);
    return SDBR_OK;
}

/* gx = (exp(x - lse) - onehot(t)) * w[t] * valid * scale, in the place of x perhaps, for samples
 * [from, to); scale is one number or one per position. */
static void FN(cross_entropy_grad)(const sdbr_op *op, const T *w, const T *scale, T common, T *gx_all, int64_t from,
                                   int64_t to) {
    const int64_t c = op->ints[1], inner = op->ints[2], code = op->ints[3], ignore = op->ints[5];
    const char *t = op->operands[1];
    const T *x_all = (const T *)op->operands[0], *lse_all = (const T *)op->operands[2];
    T factor[COLUMN_BLOCK], hit[COLUMN_BLOCK];
    int64_t at[COLUMN_BLOCK];
    for (int64_t o = from; c > 0 && o < to; o++)
        for (int64_t j = 0; j < inner; j += COLUMN_BLOCK) {
            const int64_t width = inner - j < COLUMN_BLOCK ? inner - j : COLUMN_BLOCK;
            const T *x = x_all + o * c * inner + j, *lse = lse_all + o * inner + j;
            T *gx = gx_all + o * c * inner + j;
            for (int64_t k = 0; k < width; k++) {
                const int64_t i = o * inner + j + k, label = sdbr_label(t, code, i);
                const int valid = label != ignore;
                at[k] = (valid ? sdbr_wrap(label, c) : 0) * inner + k;
                factor[k] = (w ? w[at[k] / inner] : (T)1) * (T)valid * (scale ? scale[i] : common);
                hit[k] = (FN(sdbr_exp)(x[at[k]] - lse[k]) - (T)1) * factor[k];
            }
            if (inner == 1) {
                const T l = lse[0], f = factor[0];
                SDBR_IVDEP
                for (int64_t r = 0; r < c; r++)
                    gx[r] = FN(sdbr_exp)(x[r] - l) * f;
            } else
                for (int64_t r = 0; r < c; r++) {
                    SDBR_IVDEP
                    for (int64_t k = 0; k < width; k++)
                        gx[r * inner + k] = FN(sdbr_exp)(x[r * inner + k] - lse[k]) * factor[k];
                }
            for (int64_t k = 0; k < width; k++)
                gx[at[k]] = hit[k];
        }
}

/* All threads read the labels that this one has copied and checked; `operands`: how many there are. */
static int FN(cross_entropy_grad_shared)(const sdbr_op *op, int64_t operands,
                                         void (*share)(const sdbr_op *, int64_t, int64_t)) {
    const int64_t *n = op->ints;
    char *own[8];
    sdbr_op copied = *op;
    memcpy(own, op->operands, (size_t)operands * sizeof *own);
    copied.operands = own;
    const int status = sdbr_own_labels(op, &own[1], n[3], n[0] * n[2], n[1], 1, n[5]);
    if (status == SDBR_OK)
        sdbr_share(&copied, FN(cross_entropy_shares)(op), share);
    return status;
}

/* operands: x, t, lse, coeff, gloss, w when given, gx. */
static void FN(share_mean_grad)(const sdbr_op *op, int64_t part, int64_t parts) {
    const int64_t outer = op->ints[0], weighted = op->ints[4];
    const T scale = *(const T *)op->operands[4] * *(const T *)op->operands[3];
    FN(cross_entropy_grad)(op, weighted ? (const T *)op->operands[5] : NULL, NULL, scale,
                           (T *)op->operands[5 + weighted], outer * part / parts, outer * (part + 1) / parts);
}

static int FN(softmax_cross_entropy_grad)(const sdbr_op *op) {
    return FN(cross_entropy_grad_shared)(op, 6 + op->ints[4], FN(share_mean_grad));
}

/* operands: x, t, lse, gloss, w when given, gx. */
static void FN(share_each_grad)(const sdbr_op *op, int64_t part, int64_t parts) {
    const int64_t outer = op->ints[0], weighted = op->ints[4];
    FN(cross_entropy_grad)(op, weighted ? (const T *)op->operands[4] : NULL, (const T *)op->operands[3], (T)1,
                           (T *)op->operands[4 + weighted], outer * part / parts, outer * (part + 1) / parts);
}

static int FN(softmax_cross_entropy_no_reduce_grad)(const sdbr_op *op) {
    return FN(cross_entropy_grad_shared)(op, 5 + op->ints[4], FN(share_each_grad));
}

/* The index of the first NaN or the first `m` among `n` >= LANES elements; n where there is none. */
SDBR_INLINE int64_t FN(first_hit)(const T *x, int64_t n, T m) {
    INT at[LANES];
    FN(ivec) index, first;
    for (int64_t k = 0; k < LANES; k++)
        at[k] = (INT)k;
    memcpy(&index, at, sizeof index);
    first = index - index + (INT)n;
    for (int64_t i = 0; i < n; i += LANES) {
        const int64_t from = i + LANES <= n ? i : n - LANES;
        const FN(vec) v = FN(load)(x + from);
        const FN(ivec) here = index + (INT)from, hit = ((v == m) | (v != v)) & (here < first);
        first = (here & hit) | (first & ~hit);
    }
    memcpy(at, &first, sizeof at);
    for (int64_t w = LANES / 2; w > 0; w /= 2)
        for (int64_t k = 0; k < w; k++)
            at[k] = at[k + w] < at[k] ? at[k + w] : at[k];
    return at[0];
}

/* The first index of the largest of c elements side by side, of -x when `sign` is -1; of the first NaN if
 * there is one. */
SDBR_INLINE int64_t FN(argmax)(const T *x, int64_t c, T sign) {
    enum { BLOCK = 128 };
    int64_t best = 0;
    if (c >= LANES) {
        const T m = FN(extreme_row)(x, c, sign);
        for (; m == m && best + BLOCK <= c; best += BLOCK) {
            INT hits = 0;
            for (int k = 0; k < BLOCK; k++)
                hits |= x[best + k] == m;
            if (hits)
                break;
        }
        for (; m != m && best + BLOCK <= c; best += BLOCK) {
            INT hits = 0;
            for (int k = 0; k < BLOCK; k++)
                hits |= x[best + k] != x[best + k];
            if (hits)
                break;
        }
        const int64_t n = c - best < BLOCK ? c - best : BLOCK, from = n < LANES ? c - LANES : best;
        return from + FN(first_hit)(x + from, n < LANES ? LANES : n, m);
    }
    T m = sign * x[0];
    for (int64_t i = 1; i < c; i++) {
        const T v = sign * x[i];
        const int better = (v > m) | ((v != v) & (m == m));
        best = better ? i : best;
        m = better ? v : m;
    }
    return best;
}

/* The same of columns side by side, at most ARGMAX_COLUMNS. */
#define ARGMAX_COLUMNS 512
SDBR_INLINE void FN(argmax_columns)(const T *x, int64_t c, int64_t inner, int64_t width, T sign, int32_t *y) {
    T most[ARGMAX_COLUMNS];
    INT best[ARGMAX_COLUMNS];
    for (int64_t j = 0; j < width; j++) {
        most[j] = sign * x[j];
        best[j] = 0;
    }
    for (int64_t i = 1; i < c; i++) {
        const T *row = x + i * inner;
        for (int64_t j = 0; j < width; j++) {
            const T v = sign * row[j], m = most[j];
            const int better = (v > m) | ((v != v) & (m == m));
            best[j] = better ? (INT)i : best[j];
            most[j] = better ? v : m;
        }
    }
    for (int64_t j = 0; j < width; j++)
        y[j] = (int32_t)best[j];
}

/* Columns narrower than a vector: whole groups of rows are one long row of columns, whose first bests are
 * then compared. */
#define ARGMAX_NARROW 16
SDBR_INLINE void FN(argmax_narrow)(const T *x, int64_t c, int64_t inner, T sign, int32_t *y) {
    enum { LENGTH = 64 };
    int32_t best[LENGTH];
    const int64_t rows = LENGTH / inner, length = rows * inner, groups = c / rows;
    if (groups > 0)
        FN(argmax_columns)(x, groups, length, length, sign, best);
    for (int64_t j = 0; j < inner; j++) {
        int64_t found = groups > 0 ? best[j] * rows : 0;
        for (int64_t k = 1; k < rows && groups > 0; k++) {
            const int64_t other = best[k * inner + j] * rows + k;
            const T v = sign * x[other * inner + j], m = sign * x[found * inner + j];
            /* Of equal ones, and of two NaNs, the first. */
            const int same = (v == m) | ((v != v) & (m != m));
            if ((v > m) | ((v != v) & (m == m)) | (same & (other < found)))
                found = other;
        }
        for (int64_t i = groups * rows; i < c; i++) {
            const T v = sign * x[i * inner + j], m = sign * x[found * inner + j];
            if ((v > m) | ((v != v) & (m == m)))
                found = i;
        }
        y[j] = (int32_t)found;
    }
}

/* y[rows] of x[rows, c]. Rows shorter than a vector become columns side by side. */
SDBR_INLINE void FN(argmax_rows)(const T *x, int64_t rows, int64_t c, T sign, int32_t *y) {
    enum { ROWS = 64 };
    if (c >= LANES || rows < 4) {
        for (int64_t r = 0; r < rows; r++)
            y[r] = (int32_t)FN(argmax)(x + r * c, c, sign);
        return;
    }
    T turned[LANES * ROWS];
    for (int64_t r = 0; r < rows; r += ROWS) {
        const int64_t n = rows - r < ROWS ? rows - r : ROWS;
        for (int64_t k = 0; k < n; k++)
            for (int64_t i = 0; i < c; i++)
                turned[i * ROWS + k] = x[(r + k) * c + i];
        FN(argmax_columns)(turned, c, ROWS, n, sign, y + r);
    }
}

/* y[width] of some of the columns of x[c, inner], at most ARGMAX_COLUMNS. */
SDBR_INLINE void FN(argmax_some)(const T *x, int64_t c, int64_t inner, int64_t width, T sign, int32_t *y) {
    if (inner <= ARGMAX_NARROW)
        FN(argmax_narrow)(x, c, inner, sign, y);
    else
        FN(argmax_columns)(x, c, inner, width, sign, y);
}

/* ints: [outer, c, inner]; operands: x, y. */
SDBR_INLINE int FN(arg_extreme)(const sdbr_op *op, T sign) {
    const int64_t outer = op->ints[0], c = op->ints[1], inner = op->ints[2];
    const T *x = (const T *)op->operands[0];
    int32_t *y = (int32_t *)op->operands[1];
    if (inner == 1) {
        FN(argmax_rows)(x, outer, c, sign, y);
        return SDBR_OK;
    }
    for (int64_t o = 0; o < outer; o++, x += c * inner, y += inner)
        for (int64_t j = 0; j < inner; j += ARGMAX_COLUMNS)
            FN(argmax_some)(x + j, c, inner, inner - j < ARGMAX_COLUMNS ? inner - j : ARGMAX_COLUMNS, sign, y + j);
    return SDBR_OK;
}

static int FN(argmax_op)(const sdbr_op *op) { return FN(arg_extreme)(op, (T)1); }
static int FN(argmin_op)(const sdbr_op *op) { return FN(arg_extreme)(op, (T)-1); }

/* ints: [outer, c, inner, label dtype, has_ignore, ignore_label]; operands: x, t, y. */
static int FN(accuracy)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], c = op->ints[1], inner = op->ints[2], code = op->ints[3];
    const int64_t has_ignore = op->ints[4], ignore = op->ints[5];
    const T *x = (const T *)op->operands[0];
    const char *t = op->operands[1];
    int32_t predicted[ARGMAX_COLUMNS];
    int64_t right = 0, total = 0;
    /* The rows of one sample per position, else the positions of one sample after the other. */
    const int64_t samples = inner == 1 ? 1 : outer, positions = inner == 1 ? outer : inner;
    for (int64_t o = 0; o < samples; o++)
        for (int64_t j = 0; j < positions; j += ARGMAX_COLUMNS) {
            const int64_t width = positions - j < ARGMAX_COLUMNS ? positions - j : ARGMAX_COLUMNS;
            if (inner == 1)
                FN(argmax_rows)(x + j * c, width, c, (T)1, predicted);
            else
                FN(argmax_some)(x + o * c * inner + j, c, inner, width, (T)1, predicted);
            for (int64_t k = 0; k < width; k++) {
                const int64_t label = sdbr_label(t, code, o * inner + j + k);
                const int counted = !has_ignore | (label != ignore);
                right += counted & (predicted[k] == label);
                total += counted;
            }
        }
    if (has_ignore)
        *(T *)op->operands[2] = total ? (T)((double)right / (double)total) : (T)0;
    else
        *(T *)op->operands[2] = (T)right / (T)total;
    return SDBR_OK;
}

/* ints: [n, c, label dtype]; operands: x, t, y. */
static int FN(select_item)(const sdbr_op *op) {
    const int64_t n = op->ints[0], c = op->ints[1], code = op->ints[2];
    const T *x = (const T *)op->operands[0];
    char *t = op->operands[1];
    T *y = (T *)op->operands[2];
    const int status = sdbr_own_labels(op, &t, code, n, c, 0, 0);
    if (status != SDBR_OK)
        return status;
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i * c + sdbr_wrap(sdbr_label(t, code, i), c)];
    return SDBR_OK;
}

/* ints as above; operands: x, t, y. */
static int FN(negate_item)(const sdbr_op *op) {
    const int64_t n = op->ints[0], c = op->ints[1], code = op->ints[2];
    const T *x = (const T *)op->operands[0];
    char *t = op->operands[1];
    T *y = (T *)op->operands[2];
    const int status = sdbr_own_labels(op, &t, code, n, c, 0, 0);
    if (status != SDBR_OK)
        return status;
    memcpy(y, x, (size_t)(n * c) * sizeof(T));
    for (int64_t i = 0; i < n; i++) {
        T *at = y + i * c + sdbr_wrap(sdbr_label(t, code, i), c);
        *at = -*at;
    }
    return SDBR_OK;
}

/* ints as above; operands: t, gy, gx. */
static int FN(select_item_grad)(const sdbr_op *op) {
    const int64_t n = op->ints[0], c = op->ints[1], code = op->ints[2];
    char *t = op->operands[0];
    const T *gy = (const T *)op->operands[1];
    T *gx = (T *)op->operands[2];
    const int status = sdbr_own_labels(op, &t, code, n, c, 0, 0);
    if (status != SDBR_OK)
        return status;
    memset(gx, 0, (size_t)(n * c) * sizeof(T));
    for (int64_t i = 0; i < n; i++)
        gx[i * c + sdbr_wrap(sdbr_label(t, code, i), c)] = gy[i];
    return SDBR_OK;
}
