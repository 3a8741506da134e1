/* Batch normalization of x[outer, c, inner] by dtype, for planes at least a vector long: one
 * channel after the other, which stays in the cache for its second pass. */

/* y = (x - mean) * scale + beta, of which relu is taken if `relu`; y may be x. With `more`, that is
 * added before; y may be `more`, too. */
SDBR_INLINE FN(vec) FN(scaled)(FN(vec) x, FN(vec) mean, FN(vec) scale, FN(vec) beta) {
    return (x - mean) * scale + beta;
}

SDBR_INLINE FN(vec) FN(rectified)(FN(vec) y, int relu) { return relu ? FN(only)(y, ~(FN(ivec))(y <= 0)) : y; }

SDBR_INLINE void FN(scale_plane)(const T *x, const T *more, T *y, int64_t rows, int64_t step, int64_t width, T mean,
                                 T scale, T beta, int relu) {
    const FN(vec) m = FN(splat)(mean), s = FN(splat)(scale), b = FN(splat)(beta);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t at = r * step, end = at + width - LANES;
        FN(vec) last = FN(scaled)(FN(load)(x + end), m, s, b);
        if (more)
            last += FN(load)(more + end);
        int64_t i = 0;
        for (; i + 4 * LANES <= width; i += 4 * LANES) {
            FN(vec) v[4];
            for (int u = 0; u < 4; u++) {
                v[u] = FN(scaled)(FN(load)(x + at + i + u * LANES), m, s, b);
                if (more)
                    v[u] += FN(load)(more + at + i + u * LANES);
            }
            for (int u = 0; u < 4; u++)
                FN(store)(y + at + i + u * LANES, FN(rectified)(v[u], relu));
        }
        for (; i + LANES <= width; i += LANES) {
            FN(vec) v = FN(scaled)(FN(load)(x + at + i), m, s, b);
            if (more)
                v += FN(load)(more + at + i);
            FN(store)(y + at + i, FN(rectified)(v, relu));
        }
        if (i < width)
            FN(store)(y + end, FN(rectified)(last, relu));
    }
}

static void FN(scale_plane_any)(const T *x, const T *more, T *y, int64_t rows, int64_t step, int64_t width, T mean,
                                T scale, T beta, int relu) {
    if (more && relu)
        FN(scale_plane)(x, more, y, rows, step, width, mean, scale, beta, 1);
    else if (more)
        FN(scale_plane)(x, more, y, rows, step, width, mean, scale, beta, 0);
    else if (relu)
        FN(scale_plane)(x, NULL, y, rows, step, width, mean, scale, beta, 1);
    else
        FN(scale_plane)(x, NULL, y, rows, step, width, mean, scale, beta, 0);
}

static int FN(batch_norm_planes)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], c = op->ints[1], inner = op->ints[2];
    const T *x = (const T *)op->operands[0], *gamma = (const T *)op->operands[1], *beta = (const T *)op->operands[2];
    const int64_t extra = op->ints[5];
    const T *more = extra ? (const T *)op->operands[3] : NULL;
    T *y = (T *)op->operands[3 + extra], *mean = (T *)op->operands[4 + extra];
    T *variance = (T *)op->operands[5 + extra];
    const T eps = (T)op->floats[0];
    for (int64_t k = 0; k < c; k++) {
        const int64_t at = k * inner;
        FN(plane_moments)(x + at, outer, op->ints[4], inner, mean + k, variance + k);
        FN(scale_plane_any)(x + at, more ? more + at : NULL, y + at, outer, op->ints[4], inner, mean[k], (T)1 / SQRT(variance[k] + eps) * gamma[k],
                            beta[k], (int)op->ints[3]);
    }
    return SDBR_OK;
}

/* Rounded as Chainer does it for given statistics, or as batch_norm above. */
SDBR_INLINE T FN(fixed_scale)(T variance, T eps, int64_t activation) {
    return activation & 2 ? (T)1 / SQRT(variance + eps) : SQRT((T)1 / (variance + eps));
}

static int FN(fixed_batch_norm_planes)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], c = op->ints[1], inner = op->ints[2];
    const T *x = (const T *)op->operands[0], *gamma = (const T *)op->operands[1], *beta = (const T *)op->operands[2];
    const T *mean = (const T *)op->operands[3], *variance = (const T *)op->operands[4];
    const int64_t extra = op->ints[5];
    const T *more = extra ? (const T *)op->operands[5] : NULL;
    T *y = (T *)op->operands[5 + extra];
    const T eps = (T)op->floats[0];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < c; k++) {
            const int64_t at = o * op->ints[4] + k * inner;
            const T scale = FN(fixed_scale)(variance[k], eps, op->ints[3]) * gamma[k];
            FN(scale_plane_any)(x + at, more ? more + at : NULL, y + at, 1, inner, inner, mean[k], scale, beta[k], op->ints[3] & 1);
        }
    return SDBR_OK;
}

static int FN(batch_norm_sums_planes)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], c = op->ints[1], inner = op->ints[2];
    const T *x = (const T *)op->operands[0], *mean = (const T *)op->operands[1], *variance = (const T *)op->operands[2];
    const T *gy = (const T *)op->operands[3];
    T *ggamma = (T *)op->operands[4], *gbeta = (T *)op->operands[5];
    const T eps = (T)op->floats[0];
    double sums[2];
    for (int64_t k = 0; k < c; k++) {
        const int64_t at = k * inner;
        FN(plane_gradient)(FN(THROUGH_ALL), NULL, x, gy, at, outer, op->ints[4], inner, mean[k], sums);
        gbeta[k] = (T)sums[0];
        ggamma[k] = (T)(sums[1] * sqrt(1 / ((double)variance[k] + (double)eps)));
    }
    return SDBR_OK;
}

/* gx = factor (scale g - ((x - mean) slope + shift)), with the g of `through`; gx may be x or gy. */
SDBR_INLINE void FN(gradient_plane)(int way, const FN(relu) *relu, const T *x, const T *gy, T *gx, int64_t from,
                                    int64_t rows, int64_t step, int64_t width, T mean, T factor, T scale, T slope,
                                    T shift) {
    const FN(vec) m = FN(splat)(mean), f = FN(splat)(factor), s = FN(splat)(scale);
    const FN(vec) a = FN(splat)(slope), b = FN(splat)(shift);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t at = from + r * step, end = at + width - LANES;
        const FN(vec) e = FN(load)(x + end) - m, last = f * (s * FN(through)(way, relu, gy, end, e) - (e * a + b));
        int64_t i = 0;
        for (; i + LANES <= width; i += LANES) {
            const FN(vec) d = FN(load)(x + at + i) - m;
            FN(store)(gx + at + i, f * (s * FN(through)(way, relu, gy, at + i, d) - (d * a + b)));
        }
        if (i < width)
            FN(store)(gx + end, last);
    }
}

/* Operands of the gradients of batch normalization, with relu and without. */
typedef struct FN(gradient) {
    int way;
    const T *x, *gamma, *beta, *mean, *variance, *gy, *y;
    T *gx, *ggamma, *gbeta;
} FN(gradient);

static FN(gradient) FN(gradient_of)(const sdbr_op *op) {
    const int64_t more = op->ints[3];
    FN(gradient) g = {more ? FN(THROUGH_Y) : FN(THROUGH_ALL), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};
    g.x = (const T *)op->operands[0];
    g.gamma = (const T *)op->operands[1];
    g.mean = (const T *)op->operands[2];
    g.variance = (const T *)op->operands[3];
    g.gy = (const T *)op->operands[4];
    g.y = more ? (const T *)op->operands[5] : NULL;
    g.gx = (T *)op->operands[5 + more];
    g.ggamma = (T *)op->operands[6 + more];
    g.gbeta = (T *)op->operands[7 + more];
    return g;
}

static FN(gradient) FN(relu_gradient_of)(const sdbr_op *op) {
    FN(gradient) g = {FN(THROUGH_X), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};
    g.x = (const T *)op->operands[0];
    g.gamma = (const T *)op->operands[1];
    g.beta = (const T *)op->operands[2];
    g.mean = (const T *)op->operands[3];
    g.variance = (const T *)op->operands[4];
    g.gy = (const T *)op->operands[5];
    g.gx = (T *)op->operands[6];
    g.ggamma = (T *)op->operands[7];
    g.gbeta = (T *)op->operands[8];
    return g;
}

static int FN(gradient_planes)(const sdbr_op *op, FN(gradient) g) {
    const int64_t outer = op->ints[0], c = op->ints[1], inner = op->ints[2], step = op->ints[4];
    const T eps = (T)op->floats[0];
    const double m = (double)(outer * inner);
    double sums[2];
    for (int64_t k = 0; k < c; k++) {
        const int64_t at = k * inner;
        const double inv_std = 1 / sqrt((double)g.variance[k] + (double)eps), scale = inv_std * (double)g.gamma[k];
        const FN(relu) relu = {g.y, (T)1 / SQRT(g.variance[k] + eps) * g.gamma[k], g.beta ? g.beta[k] : 0};
        FN(plane_gradient)(g.way, &relu, g.x, g.gy, at, outer, step, inner, g.mean[k], sums);
        g.gbeta[k] = (T)sums[0];
        g.ggamma[k] = (T)(sums[1] * inv_std);
        const T slope = (T)(inv_std * inv_std * sums[1] / m), shift = (T)(sums[0] / m);
#define CALL(way) \
    FN(gradient_plane)(way, &relu, g.x, g.gy, g.gx, at, outer, step, inner, g.mean[k], (T)scale, 1, slope, shift)
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

static int FN(batch_norm_grad_planes)(const sdbr_op *op) { return FN(gradient_planes)(op, FN(gradient_of)(op)); }

static int FN(batch_norm_relu_grad_planes)(const sdbr_op *op) {
    return FN(gradient_planes)(op, FN(relu_gradient_of)(op));
}
