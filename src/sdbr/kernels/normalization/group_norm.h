/* Normalization of x[n, groups, length] by dtype, each group of each n by itself. gamma and beta are
 * either one number per place in a group (`elements`: layer normalization), or one per run of places
 * that is long enough to be vectors (`planes`: channels of images). */

static void FN(row_moments)(const T *x, int64_t width, T *mean, T *variance) {
    if (width > PIECE) {
        FN(plane_moments)(x, 1, width, width, mean, variance);
        return;
    }
    if (width >= LANES) { /* one piece */
        const T k = FN(sum_row)(x, width) / (T)width;
        double sums[2];
        FN(shifted_sums)(x, 1, width, width, k, sums);
        const double shift = sums[0] / (double)width, deviation = sums[1] - sums[0] * shift;
        *mean = (T)((double)k + shift);
        *variance = (T)(deviation < 0 ? 0 : deviation / (double)width);
        if (!(deviation < (double)INFINITY))
            FN(odd_moments)(x, 1, width, width, mean, variance);
        return;
    }
    double sum = 0, deviation = 0;
    for (int64_t i = 0; i < width; i++)
        sum += (double)x[i];
    sum /= (double)width;
    for (int64_t i = 0; i < width; i++)
        deviation += ((double)x[i] - sum) * ((double)x[i] - sum);
    *mean = (T)sum;
    *variance = (T)(deviation / (double)width);
}

SDBR_INLINE int FN(group_norm)(const sdbr_op *op, int planes) {
    const int64_t n = op->ints[0], groups = op->ints[1], length = op->ints[2], run = op->ints[3];
    const T *x = (const T *)op->operands[0], *gamma = (const T *)op->operands[1], *beta = (const T *)op->operands[2];
    T *y = (T *)op->operands[3], *mean = (T *)op->operands[4], *inv_std = (T *)op->operands[5];
    const T eps = (T)op->floats[0];
    const int64_t each = length / run;
    for (int64_t r = 0; r < n * groups; r++) {
        const T *from = x + r * length, *g = gamma + r % groups * each, *b = beta + r % groups * each;
        T *to = y + r * length, variance;
        FN(row_moments)(from, length, mean + r, &variance);
        const T m = mean[r], s = (T)1 / SQRT(variance + eps);
        inv_std[r] = s;
        if (planes) {
            for (int64_t k = 0; k < each; k++)
                FN(scale_plane)(from + k * run, NULL, to + k * run, 1, run, run, m, s * g[k], b[k], 0);
        } else {
            SDBR_IVDEP
            for (int64_t i = 0; i < length; i++)
                to[i] = (from[i] - m) * s * g[i] + b[i];
        }
    }
    return SDBR_OK;
}

static int FN(group_norm_elements)(const sdbr_op *op) { return FN(group_norm)(op, 0); }
static int FN(group_norm_planes)(const sdbr_op *op) { return FN(group_norm)(op, 1); }

/* Rows whose sums are taken together: what is added to ggamma and gbeta stays in registers. */
#define GROUP_ROWS 4

/* `rows` rows, `step` apart: adds to ggamma and gbeta; sums[u] = sum of gy gamma and of gy gamma
 * x_hat of row u. */
SDBR_INLINE void FN(element_sums)(const T *x, const T *gy, const T *gamma, int rows, int64_t step, int64_t length,
                                  const T *mean, const T *inv_std, T *ggamma, T *gbeta, T (*sums)[2]) {
    FN(vec) s[GROUP_ROWS], q[GROUP_ROWS], m[GROUP_ROWS], d[GROUP_ROWS];
    for (int u = 0; u < rows; u++) {
        s[u] = q[u] = FN(splat)(0);
        m[u] = FN(splat)(mean[u]);
        d[u] = FN(splat)(inv_std[u]);
    }
    int64_t i = 0;
    for (; i + LANES <= length; i += LANES) {
        const FN(vec) scale = FN(load)(gamma + i);
        FN(vec) gg = FN(load)(ggamma + i), gb = FN(load)(gbeta + i);
        for (int u = 0; u < rows; u++) {
            const FN(vec) g = FN(load)(gy + u * step + i), h = (FN(load)(x + u * step + i) - m[u]) * d[u];
            gb += g;
            gg += g * h;
            s[u] += g * scale;
            q[u] += g * scale * h;
        }
        FN(store)(ggamma + i, gg);
        FN(store)(gbeta + i, gb);
    }
    for (int u = 0; u < rows; u++) {
        sums[u][0] = FN(sum_lanes)(s[u]);
        sums[u][1] = FN(sum_lanes)(q[u]);
        for (int64_t j = i; j < length; j++) {
            const T g = gy[u * step + j], h = (x[u * step + j] - mean[u]) * inv_std[u];
            gbeta[j] += g;
            ggamma[j] += g * h;
            sums[u][0] += g * gamma[j];
            sums[u][1] += g * gamma[j] * h;
        }
    }
}

static void FN(four_element_sums)(const T *x, const T *gy, const T *gamma, int64_t step, int64_t length, const T *mean,
                                  const T *inv_std, T *ggamma, T *gbeta, T (*sums)[2]) {
    FN(element_sums)(x, gy, gamma, GROUP_ROWS, step, length, mean, inv_std, ggamma, gbeta, sums);
}

static void FN(one_element_sums)(const T *x, const T *gy, const T *gamma, int64_t step, int64_t length, const T *mean,
                                 const T *inv_std, T *ggamma, T *gbeta, T (*sums)[2]) {
    FN(element_sums)(x, gy, gamma, 1, step, length, mean, inv_std, ggamma, gbeta, sums);
}

static int FN(group_norm_grad_elements)(const sdbr_op *op) {
    const int64_t n = op->ints[0], groups = op->ints[1], length = op->ints[2], step = groups * length;
    const T *gamma = (const T *)op->operands[1], *mean = (const T *)op->operands[2];
    const T *inv_std = (const T *)op->operands[3];
    T *ggamma = (T *)op->operands[6], *gbeta = (T *)op->operands[7];
    memset(ggamma, 0, (size_t)step * sizeof(T));
    memset(gbeta, 0, (size_t)step * sizeof(T));
    for (int64_t k = 0; k < groups; k++)
        for (int64_t r = 0, rows; r < n; r += rows) {
            const int64_t at = r * step + k * length;
            const T *x = (const T *)op->operands[0] + at, *gy = (const T *)op->operands[4] + at;
            const T *scale = gamma + k * length;
            T *gx = (T *)op->operands[5] + at, m[GROUP_ROWS], s[GROUP_ROWS], sums[GROUP_ROWS][2];
            rows = n - r < GROUP_ROWS ? 1 : GROUP_ROWS;
            for (int64_t u = 0; u < rows; u++) {
                m[u] = mean[(r + u) * groups + k];
                s[u] = inv_std[(r + u) * groups + k];
            }
            if (rows == GROUP_ROWS)
                FN(four_element_sums)(x, gy, scale, step, length, m, s, ggamma + k * length, gbeta + k * length, sums);
            else
                FN(one_element_sums)(x, gy, scale, step, length, m, s, ggamma + k * length, gbeta + k * length, sums);
            for (int64_t u = 0; u < rows; u++) {
                const T *xs = x + u * step, *gys = gy + u * step, from = m[u], width = s[u];
                const T slope = width * sums[u][1] / (T)length, mid = sums[u][0] / (T)length;
                /* Chainer's layers add up what is left of the deviation: NaN where that is infinite. */
                const T shift = op->ints[4] && slope - slope != 0 ? (T)NAN : mid;
                T *to = gx + u * step;
                SDBR_IVDEP
                for (int64_t i = 0; i < length; i++)
                    to[i] = width * (gys[i] * scale[i] - ((xs[i] - from) * slope + shift));
            }
        }
    return SDBR_OK;
}

static int FN(group_norm_grad_planes)(const sdbr_op *op) {
    const int64_t n = op->ints[0], groups = op->ints[1], length = op->ints[2], run = op->ints[3], each = length / run;
    const T *gamma = (const T *)op->operands[1], *mean = (const T *)op->operands[2];
    const T *inv_std = (const T *)op->operands[3];
    T *ggamma = (T *)op->operands[6], *gbeta = (T *)op->operands[7];
    memset(ggamma, 0, (size_t)(groups * each) * sizeof(T));
    memset(gbeta, 0, (size_t)(groups * each) * sizeof(T));
    for (int64_t r = 0; r < n * groups; r++) {
        const T *x = (const T *)op->operands[0] + r * length, *gy = (const T *)op->operands[4] + r * length;
        T *gx = (T *)op->operands[5] + r * length;
        const int64_t first = r % groups * each;
        const double s = (double)inv_std[r];
        double sum = 0, product = 0, sums[2];
        for (int64_t k = 0; k < each; k++) {
            FN(plane_gradient)(FN(THROUGH_ALL), NULL, x, gy, k * run, 1, run, run, mean[r], sums);
            gbeta[first + k] += (T)sums[0];
            ggamma[first + k] += (T)(sums[1] * s);
            sum += (double)gamma[first + k] * sums[0];
            product += (double)gamma[first + k] * sums[1];
        }
        const T slope = (T)(s * s * product / (double)length), shift = (T)(sum / (double)length);
        for (int64_t k = 0; k < each; k++)
            FN(gradient_plane)(FN(THROUGH_ALL), NULL, x, gy, gx, k * run, 1, run, run, mean[r], inv_std[r],
                               gamma[first + k], slope, shift);
    }
    return SDBR_OK;
}
