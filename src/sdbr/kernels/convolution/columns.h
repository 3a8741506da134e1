/* gx by columns, for one dtype: w.T times panels of gy, which are added to gx. For few channels of x and
 * many taps: there are as many columns as taps for each channel. */

/* to[i] += from[i] */
SDBR_INLINE void FN(add_run)(T *to, const T *from, int64_t n) {
    typedef T HALF __attribute__((vector_size(16), aligned(sizeof(T)), may_alias));
    int64_t i = 0;
    for (; i + PANEL / 2 <= n; i += PANEL / 2)
        *(FN(patch_vector) *)(to + i) += *(const FN(patch_vector) *)(from + i);
    for (; i + (int)(16 / sizeof(T)) <= n; i += (int)(16 / sizeof(T)))
        *(HALF *)(to + i) += *(const HALF *)(from + i);
    for (; i < n; ++i)
        to[i] += from[i];
}

/* columns[k - begin, pixel - first] for the rows [begin, end) of w.T, added to gx. */
static void FN(add_columns)(const sdbr_grid *g, const T *columns, int64_t ld, int64_t begin, int64_t end,
                            const FN(part) *part, T *gx) {
    const int64_t taps = sdbr_volume(g->taps), stride = g->stride[2];
    const sdbr_run *runs = part->runs;
    const int inside = FN(all_inside)(g, part, 1);
    const int64_t first[3] = {0, 0, 0};
    int64_t places[SDBR_CONV_ROWS], low, high;
    if (inside)
        for (int r = 0; r < part->n; ++r)
            places[r] = FN(reads)(g, runs + r, first, &low, &high);
    for (int64_t k = begin; k < end; ++k, columns += ld) {
        const int64_t t = k % taps;
        const int64_t tap[3] = {t / (g->taps[1] * g->taps[2]), t / g->taps[2] % g->taps[1], t % g->taps[2]};
        T *to = gx + k / taps * g->x_channel;
        if (inside && stride == 1) {
            to += (tap[0] * g->dilate[0] * g->size[1] + tap[1] * g->dilate[1]) * g->size[2] + tap[2] * g->dilate[2];
            for (int r = 0; r < part->n; ++r)
                FN(add_run)(to + places[r], columns + runs[r].at, runs[r].length);
            continue;
        }
        for (int r = 0; r < part->n; ++r) {
            T *p = to + FN(reads)(g, runs + r, tap, &low, &high);
            const T *from = columns + runs[r].at;
            if (stride == 1)
                FN(add_run)(p + low, from + low, high - low);
            else
                for (int64_t i = low; i < high; ++i)
                    p[i * stride] += from[i];
        }
    }
}

/* What the pixels [first, last) of gy, at most s->block, add to one group of gx. */
static void FN(add_block)(const sdbr_conv *s, const sdbr_grid *g, int64_t first, int64_t last, const T *gy, const T *w,
                          T *gx, T *scratch) {
    sdbr_run runs[SDBR_CONV_ROWS];
    int64_t steps[SDBR_CONV_DEPTH];
    const int64_t rows = s->o / s->groups, pixels = sdbr_volume(s->out);
    const int64_t depth = s->c / s->groups * sdbr_volume(s->kernel);
    T *panels = scratch, *columns = scratch + rows * s->block;
    for (int64_t at = first; at < last; at += PANEL) {
        const int count = last - at < PANEL ? (int)(last - at) : PANEL;
        const int n = sdbr_runs(g, at, count, runs);
        T *panel = panels + (at - first) * rows;
        for (int64_t k = 0; k < rows; ++k, panel += PANEL) {
            for (int r = 0; r < n; ++r) {
                const T *from = gy + (runs[r].image * s->o + k) * pixels +
                                (runs[r].pixel[0] * s->out[1] + runs[r].pixel[1]) * s->out[2] + runs[r].pixel[2];
                for (int i = 0; i < runs[r].length; ++i)
                    panel[runs[r].at + i] = from[i];
            }
            for (int i = count; i < PANEL; ++i)
                panel[i] = 0;
        }
    }
    for (int64_t k = 0; k < SDBR_CONV_DEPTH; ++k)
        steps[k] = k * depth;
    for (int64_t k = 0; k < depth; k += SDBR_CONV_ROWS) {
        const int64_t part = depth - k < SDBR_CONV_ROWS ? depth - k : SDBR_CONV_ROWS;
        for (int64_t at = first; at < last; at += PANEL) {
            int64_t row = 0;
            do {
                const FN(conv_end) e = {row > 0, 0};
                const int64_t some = rows - row < SDBR_CONV_DEPTH ? rows - row : SDBR_CONV_DEPTH;
                FN(conv_product)(PANEL, part, w + row * depth + k, 1, steps,
                                 panels + (at - first) * rows + row * PANEL, PANEL, some, columns + (at - first),
                                 s->block, &e, NULL);
                row += some;
            } while (row < rows);
        }
        for (int64_t at = first; at < last; at += SDBR_CONV_ROWS) {
            const int64_t count = last - at < SDBR_CONV_ROWS ? last - at : SDBR_CONV_ROWS;
            const FN(part) some = {0, runs, sdbr_runs(g, at, count, runs), (int)count};
            FN(add_columns)(g, columns + (at - first), s->block, k, k + part, &some, gx);
        }
    }
}

/* Some of the images. */
static void FN(share_columns)(const sdbr_op *op, int64_t part, int64_t parts) {
    const sdbr_conv *s = (const sdbr_conv *)op->ints;
    const T *gy = (const T *)op->operands[0], *w = (const T *)op->operands[1];
    const T *bias = s->has_bias ? (const T *)op->operands[2] : NULL;
    T *gx = (T *)op->operands[2 + s->has_bias], *scratch = (T *)op->operands[3 + s->has_bias] + part * s->slot;
    const int64_t pixels = sdbr_volume(s->out), channel = sdbr_volume(s->in), rows = s->o / s->groups;
    /* Blocks begin with an image whatever the number of parts: so does the order of sums. */
    const int64_t together = pixels > 0 && s->block > pixels ? s->block / pixels : 1;
    const int64_t first = sdbr_begin(s->n, together, part, parts), last = sdbr_begin(s->n, together, part + 1, parts);
    for (int64_t i = first * s->c; i < last * s->c; ++i)
        for (int64_t j = 0; j < channel; ++j)
            gx[i * channel + j] = bias == NULL ? (T)0 : bias[i % s->c];
    for (int64_t group = 0; group < s->groups; ++group) {
        const sdbr_grid g = sdbr_grid_of_y(s, group);
        for (int64_t image = first; image < last; image += together) {
            const int64_t end = (last - image < together ? last : image + together) * pixels;
            for (int64_t at = image * pixels; at < end; at += s->block)
                FN(add_block)(s, &g, at, end - at < s->block ? end : at + s->block, gy + group * rows * pixels,
                              w + group * rows * (s->c / s->groups) * sdbr_volume(s->kernel), gx + g.before, scratch);
        }
    }
    if (s->activation)
        for (int64_t i = first * s->c * channel; i < last * s->c * channel; ++i)
            gx[i] = gx[i] < 0 ? (T)0 : gx[i];
}

static int FN(convolution_grad_x_columns)(const sdbr_op *op) {
    sdbr_share(op, ((const sdbr_conv *)op->ints)->shares, FN(share_columns));
    return SDBR_OK;
}
