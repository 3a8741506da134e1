/* gw = sum over all pixels of gy * patches of x, for one dtype. */

/* The rows of gy for pixels that lie in several images, side by side: packed[row, SDBR_CONV_DEPTH] */
static void FN(gather_gy)(const sdbr_conv *s, const T *gy, int64_t rows, const sdbr_run *runs, int n, T *packed) {
    const int64_t pixels = sdbr_volume(s->out);
    for (int64_t k = 0; k < rows; ++k, packed += SDBR_CONV_DEPTH)
        for (int r = 0; r < n; ++r) {
            const T *from = gy + (runs[r].image * s->o + k) * pixels + runs[r].pixel;
            for (int j = 0; j < runs[r].length; ++j)
                packed[runs[r].at + j] = from[j];
        }
}

/* What `count` pixels from `first` on, at most SDBR_CONV_DEPTH, add to one group of gw. */
static void FN(correlate)(const sdbr_conv *s, int64_t group, int64_t first, int64_t count, int accumulate, const T *x,
                          const T *gy, T *gw, T *scratch) {
    T panel[SDBR_CONV_DEPTH * PANEL] __attribute__((aligned(64)));
    T block[SDBR_CONV_ROWS * PANEL] __attribute__((aligned(64)));
    sdbr_run runs[SDBR_CONV_DEPTH];
    const int64_t channels = s->c / s->groups, rows = s->o / s->groups, pixels = sdbr_volume(s->out);
    const int64_t depth = channels * sdbr_volume(s->kernel);
    const FN(conv_end) e = {accumulate, 0};
    const int n = sdbr_runs(s, first, count, runs);
    T *packed = scratch, *patches = scratch + rows * SDBR_CONV_DEPTH;
    x += group * channels * sdbr_volume(s->in);
    gw += group * rows * depth;
    FN(gather_gy)(s, gy + group * rows * pixels, rows, runs, n, packed);
    for (int64_t k = 0; k < depth; k += PANEL) {
        const int columns = depth - k < PANEL ? (int)(depth - k) : PANEL;
        const int width = FN(conv_width)(columns);
        FN(pack_patches)(s, x, runs, n, k, k + columns, patches, SDBR_CONV_DEPTH, (int)count);
        FN(pack_columns)(panel, width, patches, SDBR_CONV_DEPTH, count, columns);
        if (columns == width) {
            FN(conv_product)(width, rows, packed, SDBR_CONV_DEPTH, 1, panel, width, count, gw + k, depth, &e, NULL);
            continue;
        }
        for (int64_t i = 0; i < rows; i += SDBR_CONV_ROWS) {
            const int64_t some = rows - i < SDBR_CONV_ROWS ? rows - i : SDBR_CONV_ROWS;
            if (accumulate)
                FN(conv_copy)(block, width, gw + i * depth + k, depth, some, columns);
            FN(conv_product)(width, some, packed + i * SDBR_CONV_DEPTH, SDBR_CONV_DEPTH, 1, panel, width, count,
                             block, width, &e, NULL);
            FN(conv_copy)(gw + i * depth + k, depth, block, width, some, columns);
        }
    }
}

static int FN(convolution_grad_w)(const sdbr_op *op) {
    const sdbr_conv *s = (const sdbr_conv *)op->ints;
    const T *x = (const T *)op->operands[0], *gy = (const T *)op->operands[1];
    T *gw = (T *)op->operands[2], *scratch = (T *)op->operands[3];
    const int64_t pixels = s->n * sdbr_volume(s->out);
    if (pixels == 0 && !s->accumulate)
        memset(gw, 0, (size_t)(s->o * (s->c / s->groups) * sdbr_volume(s->kernel)) * sizeof(T));
    for (int64_t group = 0; group < s->groups; ++group)
        for (int64_t at = 0; at < pixels; at += SDBR_CONV_DEPTH)
            FN(correlate)(s, group, at, pixels - at < SDBR_CONV_DEPTH ? pixels - at : SDBR_CONV_DEPTH,
                          at > 0 || s->accumulate, x, gy, gw, scratch);
    return SDBR_OK;
}
