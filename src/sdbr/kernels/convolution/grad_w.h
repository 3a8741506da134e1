/* gw = sum over all pixels of gy * patches of x, for one dtype. */

/* The rows of gy for pixels that lie in several images, side by side: packed[row, SDBR_CONV_DEPTH] */
static void FN(gather_gy)(const sdbr_conv *s, const T *gy, int64_t rows, int64_t first, int64_t count, T *packed) {
    const int64_t pixels = sdbr_volume(s->out);
    for (int64_t k = 0; k < rows; ++k, packed += SDBR_CONV_DEPTH) {
        int64_t image = first / pixels, pixel = first % pixels;
        for (int64_t at = 0; at < count;) {
            const int64_t length = pixels - pixel < count - at ? pixels - pixel : count - at;
            const T *from = gy + (image * s->o + k) * pixels + pixel;
            for (int64_t i = 0; i < length; ++i)
                packed[at + i] = from[i];
            at += length;
            pixel = 0;
            ++image;
        }
    }
}

/* What `count` pixels from `first` on, at most SDBR_CONV_DEPTH, add to `rows` rows of one group of gw, columns
 * [begin, stop). */
static void FN(correlate)(const sdbr_conv *s, const sdbr_grid *g, int64_t first, int64_t count, int accumulate,
                          const T *x, const T *gy, int64_t rows, int64_t begin, int64_t stop, T *gw, T *scratch) {
    T panel[SDBR_CONV_DEPTH * PANEL] __attribute__((aligned(64)));
    T block[SDBR_CONV_ROWS * PANEL] __attribute__((aligned(64)));
    int64_t steps[SDBR_CONV_DEPTH];
    sdbr_run runs[SDBR_CONV_DEPTH];
    FN(part) parts[SDBR_CONV_DEPTH / SDBR_CONV_ROWS];
    const int64_t pixels = sdbr_volume(s->out), depth = s->c / s->groups * sdbr_volume(s->kernel);
    const FN(conv_end) e = {accumulate, 0};
    const int64_t image = first / pixels;
    int64_t ld = SDBR_CONV_DEPTH;
    const T *a = scratch;
    T *patches = scratch + rows * SDBR_CONV_DEPTH;
    if ((first + count - 1) / pixels == image) {
        a = gy + image * s->o * pixels + first % pixels;
        ld = pixels;
    } else
        FN(gather_gy)(s, gy, rows, first, count, scratch);
    for (int64_t k = 0; k < count; ++k)
        steps[k] = k;
    for (int i = 0; i * SDBR_CONV_ROWS < count; ++i) {
        const int64_t left = count - i * SDBR_CONV_ROWS;
        parts[i].runs = runs + i * SDBR_CONV_ROWS;
        parts[i].n = sdbr_runs(g, first + i * SDBR_CONV_ROWS, left < SDBR_CONV_ROWS ? left : SDBR_CONV_ROWS,
                               runs + i * SDBR_CONV_ROWS);
        parts[i].offset = i * SDBR_CONV_ROWS;
        parts[i].width = SDBR_CONV_ROWS;
    }
    for (; begin < stop; begin += SDBR_CONV_PATCHES) {
        const int64_t end = stop - begin < SDBR_CONV_PATCHES ? stop : begin + SDBR_CONV_PATCHES;
        for (int i = 0; i * SDBR_CONV_ROWS < count; ++i)
            FN(pack_patches)(g, x, parts + i, 1, begin, end, patches, SDBR_CONV_PATCH_STEP);
        for (int64_t k = begin; k < end; k += PANEL) {
            const int columns = end - k < PANEL ? (int)(end - k) : PANEL;
            const int width = FN(conv_width)(columns);
            FN(pack_columns)(panel, width, patches + (k - begin) * SDBR_CONV_PATCH_STEP, SDBR_CONV_PATCH_STEP, count,
                             columns);
            if (columns == width) {
                FN(conv_product)(width, rows, a, ld, steps, panel, width, count, gw + k, depth, &e, NULL);
                continue;
            }
            for (int64_t i = 0; i < rows; i += SDBR_CONV_ROWS) {
                const int64_t some = rows - i < SDBR_CONV_ROWS ? rows - i : SDBR_CONV_ROWS;
                if (accumulate)
                    FN(conv_copy)(block, width, gw + i * depth + k, depth, some, columns);
                FN(conv_product)(width, some, a + i * ld, ld, steps, panel, width, count, block, width, &e, NULL);
                FN(conv_copy)(gw + i * depth + k, depth, block, width, some, columns);
            }
        }
    }
}

/* Some of the columns of gw or, where they are few, of the rows. */
static void FN(share_grad_w)(const sdbr_op *op, int64_t part, int64_t parts) {
    const sdbr_conv *s = (const sdbr_conv *)op->ints;
    const T *x = (const T *)op->operands[0], *gy = (const T *)op->operands[1];
    T *gw = (T *)op->operands[2], *scratch = (T *)op->operands[3] + part * s->slot;
    const int64_t image = sdbr_volume(s->out), pixels = s->n * image, rows = s->o / s->groups;
    const int64_t depth = s->c / s->groups * sdbr_volume(s->kernel);
    int64_t row = 0, last_row = rows, begin = 0, end = depth;
    if (parts > 1 && depth >= 2 * parts * PANEL) {
        begin = sdbr_begin(depth, PANEL, part, parts);
        end = sdbr_begin(depth, PANEL, part + 1, parts);
    } else if (parts > 1) {
        row = sdbr_begin(rows, SDBR_CONV_TILE, part, parts);
        last_row = sdbr_begin(rows, SDBR_CONV_TILE, part + 1, parts);
    }
    if (row == last_row || begin == end)
        return;
    for (int64_t group = 0; group < s->groups; ++group) {
        const sdbr_grid g = sdbr_grid_of_y(s, group);
        const int64_t first = group * rows + row;
        for (int64_t at = 0; at < pixels; at += SDBR_CONV_DEPTH)
            FN(correlate)(s, &g, at, pixels - at < SDBR_CONV_DEPTH ? pixels - at : SDBR_CONV_DEPTH,
                          at > 0 || s->accumulate, x + g.before, gy + first * image, last_row - row, begin, end,
                          gw + first * depth, scratch);
    }
}

static int FN(convolution_grad_w)(const sdbr_op *op) {
    const sdbr_conv *s = (const sdbr_conv *)op->ints;
    if (s->n * sdbr_volume(s->out) == 0 && !s->accumulate)
        memset(op->operands[2], 0, (size_t)(s->o * (s->c / s->groups) * sdbr_volume(s->kernel)) * sizeof(T));
    sdbr_share(op, s->shares, FN(share_grad_w));
    return SDBR_OK;
}
