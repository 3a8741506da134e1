/* gx = act(gy * w.T + b) tap by tap, for one dtype: for weights that are not all finite.
 *
 * The fast ways also multiply the weights by the zeros around gy, which gives nothing but for
 * infinities and NaNs; define-by-run does not. */

/* Whether there is an infinity or a NaN: all bits of the exponent are set. */
static int FN(not_finite)(const T *x, int64_t n) {
    const T huge = (T)INFINITY;
    INT exponent, found = 0;
    memcpy(&exponent, &huge, sizeof exponent);
    for (int64_t i = 0; i < n; ++i) {
        INT bits;
        memcpy(&bits, x + i, sizeof bits);
        found |= (INT)((bits & exponent) == exponent);
    }
    return found != 0;
}

/* One image of one group. */
static void FN(exact_image)(const sdbr_conv *s, const T *gy, const T *w, T *gx) {
    const int64_t channels = s->c / s->groups, outs = s->o / s->groups, taps = sdbr_volume(s->kernel);
    const int64_t channel = sdbr_volume(s->in), pixels = sdbr_volume(s->out);
    for (int64_t o = 0; o < outs; ++o)
        for (int64_t tap = 0; tap < taps; ++tap) {
            const int64_t k[3] = {tap / (s->kernel[1] * s->kernel[2]), tap / s->kernel[2] % s->kernel[1],
                                  tap % s->kernel[2]};
            for (int64_t pixel = 0; pixel < pixels; ++pixel) {
                const int64_t y[3] = {pixel / (s->out[1] * s->out[2]), pixel / s->out[2] % s->out[1],
                                      pixel % s->out[2]};
                int64_t x[3];
                int inside = 1;
                for (int axis = 0; axis < 3; ++axis) {
                    x[axis] = y[axis] * s->stride[axis] - s->pad[axis] + k[axis] * s->dilate[axis];
                    inside &= x[axis] >= 0 && x[axis] < s->in[axis];
                }
                if (!inside)
                    continue;
                T *to = gx + (x[0] * s->in[1] + x[1]) * s->in[2] + x[2];
                for (int64_t c = 0; c < channels; ++c)
                    to[c * channel] += gy[o * pixels + pixel] * w[(o * channels + c) * taps + tap];
            }
        }
}

/* Computes gx again where zeros that are not there may have spoilt it. */
static void FN(mend_not_finite)(const sdbr_op *op) {
    const sdbr_conv *s = (const sdbr_conv *)op->ints;
    const T *gy = (const T *)op->operands[0], *w = (const T *)op->operands[1];
    const T *bias = s->has_bias ? (const T *)op->operands[2] : NULL;
    T *gx = (T *)op->operands[2 + s->has_bias];
    const int64_t channels = s->c / s->groups, outs = s->o / s->groups, channel = sdbr_volume(s->in);
    const int64_t size = s->n * s->c * channel, weights = s->o * channels * sdbr_volume(s->kernel);
    const int64_t pixels = sdbr_volume(s->out);
    if (size < weights && !FN(not_finite)(gx, size)) /* what is spoilt is a NaN: the smaller array tells */
        return;
    if (!FN(not_finite)(w, weights))
        return;
    memset(gx, 0, (size_t)size * sizeof *gx);
    for (int64_t i = 0; i < s->n; ++i)
        for (int64_t g = 0; g < s->groups; ++g)
            FN(exact_image)(s, gy + (i * s->o + g * outs) * pixels, w + g * outs * channels * sdbr_volume(s->kernel),
                            gx + (i * s->c + g * channels) * channel);
    for (int64_t i = 0; i < size; ++i) {
        if (bias != NULL)
            gx[i] += bias[i / channel % s->c];
        if (s->activation)
            gx[i] = gx[i] < 0 ? (T)0 : gx[i];
    }
}
