/* gx = act(gy * w.T + b) for one dtype: pixels of gx are sums over the taps that read them.
 *
 * With strides, pixels that are a stride apart are read by the same taps: each such phase is a
 * convolution of gy with some of the taps, whose pixels lie a stride apart in gx.
 *
 * Define-by-run sums over channels, and then over taps. The square of the error of a sum of n equal terms in a row
 * grows with n * n: there with channels * taps * (channels + taps), here with channels * taps * (piece + channels *
 * taps / piece). For pieces of 1.5 * (channels + taps) that is at most 1.7 times as much, 1.3 times the error. */

/* Sets one axis of a job to a phase; returns the first of its taps. */
static int64_t FN(set_phase)(FN(conv_job) *j, const sdbr_conv *s, int axis, int64_t phase) {
    const int64_t stride = s->stride[axis], dilate = s->dilate[axis];
    int64_t first = 0, step = 1;
    while (first < stride && (phase + s->pad[axis] - first * dilate) % stride != 0)
        ++first;
    while (step * dilate % stride != 0)
        ++step;
    j->grid.pixels[axis] = (s->in[axis] - phase + stride - 1) / stride;
    j->grid.stride[axis] = 1;
    j->grid.start[axis] = (phase + s->pad[axis] - first * dilate) / stride;
    j->grid.dilate[axis] = -(step * dilate / stride);
    j->grid.taps[axis] = first < s->kernel[axis] && first < stride ? (s->kernel[axis] - 1 - first) / step + 1 : 0;
    j->grid.size[axis] = s->out[axis];
    j->w_tap[axis] = step;
    return first;
}

/* Whether there are pixels that no tap reads: a phase without taps. */
static int FN(some_unread)(FN(conv_job) *j, const sdbr_conv *s) {
    for (int axis = 0; axis < 3; ++axis)
        for (int64_t phase = 0; phase < s->stride[axis] && phase < s->in[axis]; ++phase) {
            FN(set_phase)(j, s, axis, phase);
            if (j->grid.taps[axis] == 0)
                return 1;
        }
    return 0;
}

/* gx = act(b) */
static void FN(fill_with_bias)(const sdbr_conv *s, const T *bias, T *gx) {
    const int64_t channel = sdbr_volume(s->in);
    for (int64_t i = 0; i < s->n * s->c; ++i, gx += channel) {
        T value = bias == NULL ? (T)0 : bias[i % s->c];
        if (s->activation && value < 0)
            value = 0;
        for (int64_t k = 0; k < channel; ++k)
            gx[k] = value;
    }
}

/* What all phases of gx have in common. Weights of kernels of one tap are turned. */
static FN(conv_job) FN(grad_x_job)(const sdbr_conv *s) {
    const int64_t channel = sdbr_volume(s->in);
    FN(conv_job) j = {.rows = s->c / s->groups, .channels = s->o / s->groups, .relu = (int)s->activation};
    j.w_row = sdbr_volume(s->kernel);
    j.w_channel = j.rows * j.w_row;
    if (j.w_row == 1) {
        j.w_row = (j.channels + PANEL - 1) / PANEL * PANEL;
        j.w_channel = 1;
    }
    j.y_image = s->c * channel;
    j.y_row = channel;
    j.y_pixel[0] = s->stride[0] * s->in[1] * s->in[2];
    j.y_pixel[1] = s->stride[1] * s->in[2];
    j.y_pixel[2] = s->stride[2];
    j.grid.images = s->n;
    j.grid.x_channel = sdbr_volume(s->out);
    j.grid.x_image = s->o * j.grid.x_channel;
    return j;
}

static void FN(share_grad_x)(const sdbr_op *op, int64_t part, int64_t parts) {
    const sdbr_conv *s = (const sdbr_conv *)op->ints;
    const T *gy = (const T *)op->operands[0], *w = (const T *)op->operands[1];
    const T *bias = s->has_bias ? (const T *)op->operands[2] : NULL;
    T *gx = (T *)op->operands[2 + s->has_bias], *scratch = (T *)op->operands[3 + s->has_bias] + part * s->slot;
    const int64_t channel = sdbr_volume(s->in), taps = sdbr_volume(s->kernel);
    const int64_t plane = s->in[1] * s->in[2], area = s->kernel[1] * s->kernel[2];
    FN(conv_job) j = FN(grad_x_job)(s);
    if (taps == 1)
        w = (const T *)op->operands[3 + s->has_bias] + s->shares * s->slot;
    for (int64_t z = 0; z < s->stride[0] && z < s->in[0]; ++z)
        for (int64_t y = 0; y < s->stride[1] && y < s->in[1]; ++y)
            for (int64_t x = 0; x < s->stride[2] && x < s->in[2]; ++x) {
                const int64_t tap = FN(set_phase)(&j, s, 0, z) * area + FN(set_phase)(&j, s, 1, y) * s->kernel[2] +
                                    FN(set_phase)(&j, s, 2, x);
                j.w_tap[0] *= area;
                j.w_tap[1] *= s->kernel[2];
                if (sdbr_volume(j.grid.taps) == 0)
                    continue;
                j.piece = 3 * (j.channels + sdbr_volume(j.grid.taps)) / 2;
                for (int64_t group = 0; group < s->groups; ++group) {
                    j.grid.before = group * j.channels * j.grid.x_channel;
                    j.grid.after = s->n * j.grid.x_image - j.grid.before;
                    j.x = gy + j.grid.before;
                    j.w = w + (taps == 1 ? group * j.rows * j.w_row : group * j.channels * j.w_channel + tap);
                    j.y = gx + group * j.rows * channel + z * plane + y * s->in[2] + x;
                    j.bias = bias == NULL ? NULL : bias + group * j.rows;
                    FN(convolve_part)(&j, s->block, part, parts, scratch);
                }
            }
}

static int FN(convolution_grad_x)(const sdbr_op *op) {
    const sdbr_conv *s = (const sdbr_conv *)op->ints;
    const T *bias = s->has_bias ? (const T *)op->operands[2] : NULL;
    FN(conv_job) j = FN(grad_x_job)(s);
    if (FN(some_unread)(&j, s))
        FN(fill_with_bias)(s, bias, (T *)op->operands[2 + s->has_bias]);
    if (sdbr_volume(s->kernel) == 1) { /* numbers of one row lie far apart: they are brought together */
        const T *w = (const T *)op->operands[1];
        T *turned = (T *)op->operands[3 + s->has_bias] + s->shares * s->slot;
        for (int64_t group = 0; group < s->groups; ++group)
            FN(pack_columns)(turned + group * j.rows * j.w_row, (int)j.w_row, w + group * j.channels * j.rows, j.rows,
                             j.rows, (int)j.channels);
    }
    sdbr_share(op, s->shares, FN(share_grad_x));
    FN(mend_not_finite)(op);
    return SDBR_OK;
}
