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
        FN(plane_gradient)(x + at, gy + at, NULL, outer, op->ints[4], inner, mean[k], sums);
        gbeta[k] = (T)sums[0];
        ggamma[k] = (T)(sums[1] / sqrt((double)variance[k] + (double)eps));
    }
    return SDBR_OK;
}

/* gx = scale * g - ((x - mean) * slope + shift), with g = gy where y > 0 if there is a y. gx may be
 * x or gy. */
SDBR_INLINE void FN(gradient_plane)(const T *x, const T *gy, const T *y, T *gx, int64_t rows, int64_t step,
                                    int64_t width, T mean, T scale, T slope, T shift) {
    const FN(vec) m = FN(splat)(mean), s = FN(splat)(scale), a = FN(splat)(slope), b = FN(splat)(shift);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t at = r * step, end = at + width - LANES;
        FN(vec) last = FN(load)(gy + end);
        if (y)
            last = FN(passed)(last, FN(load)(y + end));
        last = s * last - ((FN(load)(x + end) - m) * a + b);
        int64_t i = 0;
        for (; i + LANES <= width; i += LANES) {
            FN(vec) g = FN(load)(gy + at + i);
            if (y)
                g = FN(passed)(g, FN(load)(y + at + i));
            FN(store)(gx + at + i, s * g - ((FN(load)(x + at + i) - m) * a + b));
        }
        if (i < width)
            FN(store)(gx + end, last);
    }
}

static int FN(batch_norm_grad_planes)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], c = op->ints[1], inner = op->ints[2], step = op->ints[4], more = op->ints[3];
    const T *x = (const T *)op->operands[0], *gamma = (const T *)op->operands[1];
    const T *mean = (const T *)op->operands[2], *variance = (const T *)op->operands[3];
    const T *gy = (const T *)op->operands[4], *y = more ? (const T *)op->operands[5] : NULL;
    T *gx = (T *)op->operands[5 + more], *ggamma = (T *)op->operands[6 + more], *gbeta = (T *)op->operands[7 + more];
    const T eps = (T)op->floats[0];
    const double m = (double)(outer * inner);
    double sums[2];
    for (int64_t k = 0; k < c; k++) {
        const int64_t at = k * inner;
        const double inv_std = 1 / sqrt((double)variance[k] + (double)eps), scale = inv_std * (double)gamma[k];
        FN(plane_gradient)(x + at, gy + at, y ? y + at : NULL, outer, step, inner, mean[k], sums);
        gbeta[k] = (T)sums[0];
        ggamma[k] = (T)(sums[1] * inv_std);
        const T slope = (T)(scale * inv_std * inv_std * sums[1] / m), shift = (T)(scale * sums[0] / m);
        if (y)
            FN(gradient_plane)(x + at, gy + at, y + at, gx + at, outer, step, inner, mean[k], (T)scale, slope, shift);
        else
            FN(gradient_plane)(x + at, gy + at, NULL, gx + at, outer, step, inner, mean[k], (T)scale, slope, shift);
    }
    return SDBR_OK;
}
