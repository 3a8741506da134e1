/* gx = act(gy * w.T + b) for one dtype: w.T times panels of gy gives columns, which are added to gx. */

/* columns[k - begin, pixel - first] for the rows [begin, end) of w.T, added to gx. */
static void FN(add_columns)(const sdbr_conv *s, const T *columns, int64_t begin, int64_t end, const sdbr_run *runs,
                            int n, T *gx) {
    FN(source) sources[SDBR_CONV_DEPTH];
    const int64_t taps = sdbr_volume(s->kernel), channel = sdbr_volume(s->in), stride = s->stride[2];
    for (int64_t tap = 0; tap < taps; ++tap) {
        int64_t k = begin <= tap ? tap : (begin - tap + taps - 1) / taps * taps + tap;
        if (k >= end)
            continue;
        FN(find_sources)(s, runs, n, tap, sources);
        for (; k < end; k += taps) {
            T *to = gx + k / taps * channel;
            const T *row = columns + (k - begin) * s->block;
            for (int i = 0; i < n; ++i) {
                const FN(source) *r = sources + i;
                T *p = to + r->offset;
                if (stride == 1)
                    for (int j = r->low; j < r->high; ++j)
                        p[j - r->low] += row[j];
                else
                    for (int j = r->low; j < r->high; ++j)
                        p[(j - r->low) * stride] += row[j];
            }
        }
    }
}

/* What the pixels [first, last) of gy, at most s->block, add to one group of gx. */
static void FN(deconvolve)(const sdbr_conv *s, int64_t group, int64_t first, int64_t last, const T *gy, const T *w,
                           T *gx, T *scratch) {
    sdbr_run runs[SDBR_CONV_DEPTH];
    const int64_t channels = s->c / s->groups, rows = s->o / s->groups, pixels = sdbr_volume(s->out);
    const int64_t depth = channels * sdbr_volume(s->kernel);
    T *panels = scratch, *columns = scratch + rows * s->block;
    gx += group * channels * sdbr_volume(s->in);
    w += group * rows * depth;
    gy += group * rows * pixels;
    for (int64_t at = first; at < last; at += PANEL) {
        const int count = last - at < PANEL ? (int)(last - at) : PANEL;
        const int n = sdbr_runs(s, at, count, runs);
        T *panel = panels + (at - first) * rows;
        for (int64_t k = 0; k < rows; ++k, panel += PANEL) {
            for (int r = 0; r < n; ++r) {
                const T *from = gy + (runs[r].image * s->o + k) * pixels + runs[r].pixel;
                for (int j = 0; j < runs[r].length; ++j)
                    panel[runs[r].at + j] = from[j];
            }
            for (int j = count; j < PANEL; ++j)
                panel[j] = 0;
        }
    }
    for (int64_t k = 0; k < depth; k += SDBR_CONV_ROWS) {
        const int64_t part = depth - k < SDBR_CONV_ROWS ? depth - k : SDBR_CONV_ROWS;
        for (int64_t at = first; at < last; at += PANEL) {
            int64_t row = 0;
            do {
                const FN(conv_end) e = {row > 0, 0};
                const int64_t some = rows - row < SDBR_CONV_DEPTH ? rows - row : SDBR_CONV_DEPTH;
                FN(conv_product)(PANEL, part, w + row * depth + k, 1, depth,
                                 panels + (at - first) * rows + row * PANEL, PANEL, some, columns + (at - first),
                                 s->block, &e, NULL);
                row += some;
            } while (row < rows);
        }
        for (int64_t at = first; at < last; at += SDBR_CONV_DEPTH) {
            const int64_t count = last - at < SDBR_CONV_DEPTH ? last - at : SDBR_CONV_DEPTH;
            const int n = sdbr_runs(s, at, count, runs);
            FN(add_columns)(s, columns + (at - first), k, k + part, runs, n, gx);
        }
    }
}

static int FN(convolution_grad_x)(const sdbr_op *op) {
    const sdbr_conv *s = (const sdbr_conv *)op->ints;
    const T *gy = (const T *)op->operands[0], *w = (const T *)op->operands[1];
    const T *bias = s->has_bias ? (const T *)op->operands[2] : NULL;
    T *gx = (T *)op->operands[2 + s->has_bias], *scratch = (T *)op->operands[3 + s->has_bias];
    const int64_t pixels = s->n * sdbr_volume(s->out), channel = sdbr_volume(s->in);
    for (int64_t i = 0; i < s->n * s->c; ++i)
        for (int64_t j = 0; j < channel; ++j)
            gx[i * channel + j] = bias == NULL ? (T)0 : bias[i % s->c];
    for (int64_t group = 0; group < s->groups; ++group)
        for (int64_t at = 0; at < pixels; at += s->block)
            FN(deconvolve)(s, group, at, pixels - at < s->block ? pixels : at + s->block, gy, w, gx, scratch);
    if (s->activation)
        for (int64_t i = 0; i < s->n * s->c * channel; ++i)
            gx[i] = gx[i] < 0 ? (T)0 : gx[i];
    return SDBR_OK;
}
