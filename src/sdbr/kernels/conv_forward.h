/* y = act(x * w + b) for one dtype: w as it lies times panels of patches. */

/* The sums of a panel go to y where its pixels are neighbours there, else here first. */
static void FN(spread_panel)(const sdbr_conv *s, const T *staged, int64_t rows, const sdbr_run *runs, int n, T *y) {
    const int64_t pixels = sdbr_volume(s->out);
    for (int64_t i = 0; i < rows; ++i, staged += PANEL, y += pixels)
        for (int r = 0; r < n; ++r)
            for (int j = 0; j < runs[r].length; ++j)
                y[runs[r].image * s->o * pixels + runs[r].pixel + j] = staged[runs[r].at + j];
}

/* The pixels [first, last) of one group, at most s->block. */
static void FN(convolve)(const sdbr_conv *s, int64_t group, int64_t first, int64_t last, const T *x, const T *w,
                         const T *bias, T *y, T *staging) {
    T panel[SDBR_CONV_DEPTH * PANEL] __attribute__((aligned(64)));
    sdbr_run runs[PANEL];
    const int64_t channels = s->c / s->groups, rows = s->o / s->groups, pixels = sdbr_volume(s->out);
    const int64_t depth = channels * sdbr_volume(s->kernel);
    x += group * channels * sdbr_volume(s->in);
    w += group * rows * depth;
    y += group * rows * pixels;
    if (bias != NULL)
        bias += group * rows;
    int64_t k = 0;
    do {
        const int64_t part = depth - k < SDBR_CONV_DEPTH ? depth - k : SDBR_CONV_DEPTH;
        const FN(conv_end) e = {k > 0, s->activation && k + part == depth};
        for (int64_t at = first; at < last; at += PANEL) {
            const int columns = last - at < PANEL ? (int)(last - at) : PANEL;
            const int width = FN(conv_width)(columns);
            const int n = sdbr_runs(s, at, columns, runs);
            T *c = staging + (at - first) * rows;
            int64_t ldc = PANEL;
            const int whole = columns == width && runs[0].image == runs[n - 1].image;
            if (whole) {
                c = y + runs[0].image * s->o * pixels + runs[0].pixel;
                ldc = pixels;
            }
            FN(pack_patches)(s, x, runs, n, k, k + part, panel, width, width);
            FN(conv_product)(width, rows, w + k, depth, 1, panel, width, part, c, ldc, &e, bias);
            if (!whole && k + part == depth)
                FN(spread_panel)(s, c, rows, runs, n, y);
        }
        k += part;
    } while (k < depth);
}

static int FN(convolution)(const sdbr_op *op) {
    const sdbr_conv *s = (const sdbr_conv *)op->ints;
    const T *x = (const T *)op->operands[0], *w = (const T *)op->operands[1];
    const T *bias = s->has_bias ? (const T *)op->operands[2] : NULL;
    T *y = (T *)op->operands[2 + s->has_bias], *scratch = (T *)op->operands[3 + s->has_bias];
    const int64_t pixels = s->n * sdbr_volume(s->out);
    for (int64_t group = 0; group < s->groups; ++group)
        for (int64_t at = 0; at < pixels; at += s->block) {
            const int64_t last = pixels - at < s->block ? pixels : at + s->block;
            FN(convolve)(s, group, at, last, x, w, bias, y, scratch);
        }
    return SDBR_OK;
}
