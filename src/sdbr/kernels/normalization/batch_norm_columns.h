/* Batch normalization of x[outer, c, inner] by dtype, for short planes: x is a matrix of `outer`
 * rows and c * inner columns, taken in blocks of whole channels. Sums run down the columns, a piece
 * of rows at a time, and are put together in double. */

#define COLUMNS 256
#define COLUMN_ROWS 64

/* Mean and variance of `width` columns, `step` apart from row to row. */
static void FN(column_moments)(const T *x, int64_t rows, int64_t step, int64_t width, double *mean, double *deviation) {
    T from[COLUMNS], s[COLUMNS], q[COLUMNS];
    for (int64_t j = 0; j < width; j++) {
        from[j] = x[j];
        mean[j] = deviation[j] = 0;
    }
    for (int64_t r = 0; r < rows; r += COLUMN_ROWS) {
        const int64_t n = rows - r < COLUMN_ROWS ? rows - r : COLUMN_ROWS;
        for (int64_t j = 0; j < width; j++)
            s[j] = q[j] = 0;
        for (int64_t i = r; i < r + n; i++) {
            const T *row = x + i * step;
            SDBR_IVDEP
            for (int64_t j = 0; j < width; j++) {
                const T d = row[j] - from[j];
                s[j] += d;
                q[j] += d * d;
            }
        }
        for (int64_t j = 0; j < width; j++) {
            FN(moments) m = {(double)r, mean[j], deviation[j]};
            const double sums[2] = {(double)s[j], (double)q[j]};
            FN(add_piece)(&m, (double)n, from[j], sums);
            mean[j] = m.mean;
            deviation[j] = m.deviation;
            from[j] = (T)m.mean;
        }
    }
}

/* Mean and variance of a channel of `inner` columns of `rows` rows each. */
static void FN(channel_moments)(const T *x, int64_t rows, int64_t step, int64_t inner, const double *means,
                                const double *deviations, T *mean, T *variance) {
    double sum = 0, deviation = 0;
    for (int64_t i = 0; i < inner; i++)
        sum += means[i];
    sum /= (double)inner;
    for (int64_t i = 0; i < inner; i++)
        deviation += deviations[i] + (double)rows * (means[i] - sum) * (means[i] - sum);
    if (!(deviation < (double)INFINITY)) {
        FN(odd_moments)(x, rows, step, inner, mean, variance);
        return;
    }
    *mean = (T)sum;
    *variance = (T)(deviation < 0 ? 0 : deviation / (double)(rows * inner));
}

/* The number of each channel for each of its columns. */
SDBR_INLINE void FN(spread)(const T *each, int64_t channels, int64_t inner, T *all) {
    for (int64_t k = 0; k < channels; k++)
        for (int64_t i = 0; i < inner; i++)
            all[k * inner + i] = each[k];
}

SDBR_INLINE void FN(scale_columns)(const T *x, const T *more, T *y, int64_t rows, int64_t step, int64_t width,
                                   const T *mean, const T *scale, const T *beta, int relu) {
    for (int64_t r = 0; r < rows; r++) {
        const T *from = x + r * step, *extra = more ? more + r * step : from;
        T *to = y + r * step;
        SDBR_IVDEP
        for (int64_t j = 0; j < width; j++) {
            T v = (from[j] - mean[j]) * scale[j] + beta[j];
            v = more ? v + extra[j] : v;
            to[j] = relu && v <= 0 ? (T)0 : v;
        }
    }
}

/* Normalize a block of channels that starts at x; see scale_plane. */
static void FN(scale_block)(const T *x, const T *more, T *y, int64_t rows, int64_t step, int64_t channels,
                            int64_t inner, const T *mean, const T *scale, const T *beta, int relu) {
    T m[COLUMNS], s[COLUMNS], b[COLUMNS];
    FN(spread)(mean, channels, inner, m);
    FN(spread)(scale, channels, inner, s);
    FN(spread)(beta, channels, inner, b);
    if (more && relu)
        FN(scale_columns)(x, more, y, rows, step, channels * inner, m, s, b, 1);
    else if (more)
        FN(scale_columns)(x, more, y, rows, step, channels * inner, m, s, b, 0);
    else if (relu)
        FN(scale_columns)(x, NULL, y, rows, step, channels * inner, m, s, b, 1);
    else
        FN(scale_columns)(x, NULL, y, rows, step, channels * inner, m, s, b, 0);
}

static int FN(batch_norm_columns)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], c = op->ints[1], inner = op->ints[2], step = op->ints[4], most = COLUMNS / inner;
    const T *x = (const T *)op->operands[0], *gamma = (const T *)op->operands[1], *beta = (const T *)op->operands[2];
    const int64_t extra = op->ints[5];
    const T *more = extra ? (const T *)op->operands[3] : NULL;
    T *y = (T *)op->operands[3 + extra], *mean = (T *)op->operands[4 + extra];
    T *variance = (T *)op->operands[5 + extra];
    const T eps = (T)op->floats[0];
    for (int64_t k = 0; k < c; k += most) {
        const int64_t n = c - k < most ? c - k : most, at = k * inner;
        double means[COLUMNS], deviations[COLUMNS];
        T scale[COLUMNS];
        FN(column_moments)(x + at, outer, step, n * inner, means, deviations);
        for (int64_t i = 0; i < n; i++) {
            FN(channel_moments)(x + at + i * inner, outer, step, inner, means + i * inner, deviations + i * inner,
                                mean + k + i, variance + k + i);
            scale[i] = (T)1 / SQRT(variance[k + i] + eps) * gamma[k + i];
        }
        FN(scale_block)(x + at, more ? more + at : NULL, y + at, outer, step, n, inner, mean + k, scale, beta + k, (int)op->ints[3]);
    }
    return SDBR_OK;
}

static int FN(fixed_batch_norm_columns)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], c = op->ints[1], inner = op->ints[2], most = COLUMNS / inner;
    const T *x = (const T *)op->operands[0], *gamma = (const T *)op->operands[1], *beta = (const T *)op->operands[2];
    const T *mean = (const T *)op->operands[3], *variance = (const T *)op->operands[4];
    const int64_t extra = op->ints[5];
    const T *more = extra ? (const T *)op->operands[5] : NULL;
    T *y = (T *)op->operands[5 + extra];
    const T eps = (T)op->floats[0];
    for (int64_t k = 0; k < c; k += most) {
        const int64_t n = c - k < most ? c - k : most, at = k * inner;
        T scale[COLUMNS];
        for (int64_t i = 0; i < n; i++)
            scale[i] = FN(fixed_scale)(variance[k + i], eps, op->ints[3]) * gamma[k + i];
        FN(scale_block)(x + at, more ? more + at : NULL, y + at, outer, op->ints[4], n, inner, mean + k, scale, beta + k, op->ints[3] & 1);
    }
    return SDBR_OK;
}

/* The gradient that comes through relu, as `through`. */
SDBR_INLINE T FN(through_column)(int way, T gy, T y, T d, T scale, T beta) {
    if (way == FN(THROUGH_ALL))
        return gy;
    return gy * (T)((way == FN(THROUGH_Y) ? y : d * scale + beta) > 0);
}

/* What relu needs of a block of columns. */
typedef struct FN(relu_columns) {
    const T *y;
    T scale[COLUMNS], beta[COLUMNS];
} FN(relu_columns);

/* Per column the sum of g and of g (x - mean), with the g of `through_column`. */
SDBR_INLINE void FN(column_sums)(int way, const FN(relu_columns) *relu, const T *x, const T *gy, int64_t rows,
                                 int64_t step, int64_t width, const T *mean, double *sums, double *products) {
    T s[COLUMNS], q[COLUMNS];
    for (int64_t j = 0; j < width; j++)
        sums[j] = products[j] = 0;
    for (int64_t r = 0; r < rows; r += COLUMN_ROWS) {
        const int64_t end = rows - r < COLUMN_ROWS ? rows : r + COLUMN_ROWS;
        for (int64_t j = 0; j < width; j++)
            s[j] = q[j] = 0;
        for (int64_t i = r; i < end; i++) {
            const T *xs = x + i * step, *gys = gy + i * step, *ys = relu->y ? relu->y + i * step : xs;
            SDBR_IVDEP
            for (int64_t j = 0; j < width; j++) {
                const T d = xs[j] - mean[j];
                const T g = FN(through_column)(way, gys[j], ys[j], d, relu->scale[j], relu->beta[j]);
                s[j] += g;
                q[j] += g * d;
            }
        }
        for (int64_t j = 0; j < width; j++) {
            sums[j] += (double)s[j];
            products[j] += (double)q[j];
        }
    }
}

/* The same per channel; `mean` per column. */
static void FN(channel_sums)(int way, const FN(relu_columns) *relu, const T *x, const T *gy, int64_t rows, int64_t step,
                             int64_t channels, int64_t inner, const T *mean, double *sums, double *products) {
    if (way == FN(THROUGH_ALL))
        FN(column_sums)(FN(THROUGH_ALL), relu, x, gy, rows, step, channels * inner, mean, sums, products);
    else if (way == FN(THROUGH_Y))
        FN(column_sums)(FN(THROUGH_Y), relu, x, gy, rows, step, channels * inner, mean, sums, products);
    else
        FN(column_sums)(FN(THROUGH_X), relu, x, gy, rows, step, channels * inner, mean, sums, products);
    for (int64_t k = 0; k < channels; k++) {
        double s = 0, q = 0;
        for (int64_t i = k * inner; i < (k + 1) * inner; i++) {
            s += sums[i];
            q += products[i];
        }
        sums[k] = s;
        products[k] = q;
    }
}

static int FN(batch_norm_sums_columns)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], c = op->ints[1], inner = op->ints[2], most = COLUMNS / inner;
    const T *x = (const T *)op->operands[0], *mean = (const T *)op->operands[1], *variance = (const T *)op->operands[2];
    const T *gy = (const T *)op->operands[3];
    T *ggamma = (T *)op->operands[4], *gbeta = (T *)op->operands[5];
    const T eps = (T)op->floats[0];
    FN(relu_columns) none;
    none.y = NULL;
    for (int64_t k = 0; k < c; k += most) {
        const int64_t n = c - k < most ? c - k : most, at = k * inner;
        double sums[COLUMNS], products[COLUMNS];
        T m[COLUMNS];
        FN(spread)(mean + k, n, inner, m);
        FN(channel_sums)(FN(THROUGH_ALL), &none, x + at, gy + at, outer, op->ints[4], n, inner, m, sums, products);
        for (int64_t i = 0; i < n; i++) {
            gbeta[k + i] = (T)sums[i];
            ggamma[k + i] = (T)(products[i] * sqrt(1 / ((double)variance[k + i] + (double)eps)));
        }
    }
    return SDBR_OK;
}

SDBR_INLINE void FN(gradient_columns)(int way, const FN(relu_columns) *relu, const T *x, const T *gy, T *gx,
                                      int64_t rows, int64_t step, int64_t width, const T *mean, const T *scale,
                                      const T *slope, const T *shift) {
    for (int64_t r = 0; r < rows; r++) {
        const T *xs = x + r * step, *gys = gy + r * step, *ys = relu->y ? relu->y + r * step : xs;
        T *to = gx + r * step;
        SDBR_IVDEP
        for (int64_t j = 0; j < width; j++) {
            const T d = xs[j] - mean[j];
            const T g = FN(through_column)(way, gys[j], ys[j], d, relu->scale[j], relu->beta[j]);
            to[j] = scale[j] * (g - (d * slope[j] + shift[j]));
        }
    }
}

static int FN(gradient_by_columns)(const sdbr_op *op, FN(gradient) g) {
    const int64_t outer = op->ints[0], c = op->ints[1], inner = op->ints[2], step = op->ints[4];
    const int64_t most = COLUMNS / inner;
    const T eps = (T)op->floats[0];
    const double all = (double)(outer * inner);
    for (int64_t k = 0; k < c; k += most) {
        const int64_t n = c - k < most ? c - k : most, at = k * inner;
        double sums[COLUMNS], products[COLUMNS];
        T m[COLUMNS], scale[COLUMNS], slope[COLUMNS], shift[COLUMNS];
        FN(relu_columns) relu;
        relu.y = g.y ? g.y + at : NULL;
        for (int64_t i = 0; g.beta && i < n; i++)
            for (int64_t j = i * inner; j < (i + 1) * inner; j++) {
                relu.scale[j] = (T)1 / SQRT(g.variance[k + i] + eps) * g.gamma[k + i];
                relu.beta[j] = g.beta[k + i];
            }
        FN(spread)(g.mean + k, n, inner, m);
        FN(channel_sums)(g.way, &relu, g.x + at, g.gy + at, outer, step, n, inner, m, sums, products);
        for (int64_t i = 0; i < n; i++) {
            const double inv_std = 1 / sqrt((double)g.variance[k + i] + (double)eps);
            const double whole = inv_std * (double)g.gamma[k + i];
            g.gbeta[k + i] = (T)sums[i];
            g.ggamma[k + i] = (T)(products[i] * inv_std);
            for (int64_t j = i * inner; j < (i + 1) * inner; j++) {
                scale[j] = (T)whole;
                slope[j] = (T)(inv_std * inv_std * products[i] / all);
                shift[j] = (T)(sums[i] / all);
            }
        }
#define CALL(way) \
    FN(gradient_columns)(way, &relu, g.x + at, g.gy + at, g.gx + at, outer, step, n * inner, m, scale, slope, shift)
        if (g.way == FN(THROUGH_ALL))
            CALL(FN(THROUGH_ALL));
        else if (g.way == FN(THROUGH_Y))
            CALL(FN(THROUGH_Y));
        else
            CALL(FN(THROUGH_X));
#undef CALL
    }
    return SDBR_OK;
}

static int FN(batch_norm_grad_columns)(const sdbr_op *op) { return FN(gradient_by_columns)(op, FN(gradient_of)(op)); }

static int FN(batch_norm_relu_grad_columns)(const sdbr_op *op) {
    return FN(gradient_by_columns)(op, FN(relu_gradient_of)(op));
}
