/* Products of weights with panels of patches, for one dtype: the forward, and the gradient for x. */

typedef struct FN(conv_job) {
    sdbr_grid grid;
    const T *x; /* the first channel */
    const T *w; /* [row, channel, tap] with these steps */
    int64_t w_row, w_channel, w_tap[3];
    T *y; /* [image, row, pixel] with these steps */
    int64_t y_image, y_row, y_pixel[3];
    int64_t rows, channels;
    const T *bias; /* one per row, or NULL */
    int relu;
    int64_t piece; /* so many terms of a sum are added up by themselves at most, and these sums then */
} FN(conv_job);

/* Where w[., channel, tap] lies for k = channel * taps + tap in [begin, end), from the row on. */
static void FN(weight_steps)(const FN(conv_job) *j, int64_t begin, int64_t end, int64_t *steps) {
    const int64_t *taps = j->grid.taps, all = sdbr_volume(taps);
    int64_t channel = begin / all, z = begin % all / (taps[1] * taps[2]);
    int64_t y = begin % all / taps[2] % taps[1], x = begin % taps[2];
    for (int64_t k = begin; k < end; ++k) {
        *steps++ = channel * j->w_channel + z * j->w_tap[0] + y * j->w_tap[1] + x * j->w_tap[2];
        if (++x == taps[2]) {
            x = 0;
            if (++y == taps[1]) {
                y = 0;
                if (++z == taps[0]) {
                    z = 0;
                    ++channel;
                }
            }
        }
    }
}

/* The panel of a part of the pixels, from where it was staged to y. */
static void FN(spread_panel)(const FN(conv_job) *j, const T *staged, int64_t ld, const sdbr_run *runs, int n) {
    const int64_t step = j->y_pixel[2];
    for (int r = 0; r < n; ++r) {
        T *y = j->y + runs[r].image * j->y_image + runs[r].pixel[0] * j->y_pixel[0] + runs[r].pixel[1] * j->y_pixel[1] +
               runs[r].pixel[2] * step;
        const T *from = staged + runs[r].at;
        const int length = runs[r].length;
        for (int64_t i = 0; i < j->rows; ++i, y += j->y_row, from += ld) {
            if (step == 1)
                for (int k = 0; k < length; ++k)
                    y[k] = from[k];
            else
                for (int k = 0; k < length; ++k)
                    y[k * step] = from[k];
        }
    }
}

/* One panel of a strip: where its sums go. */
typedef struct FN(target) {
    FN(part) part;
    T *c;
    int64_t ldc;
    int direct; /* c is y itself */
} FN(target);

/* Cuts the pixels [at, last) into at most `most` panels; returns how many. `runs` has room for PANEL
 * of each. */
static int FN(cut_strip)(const FN(conv_job) *j, int64_t at, int64_t last, int most, T *staging,
                         sdbr_run *runs, FN(target) *targets) {
    const sdbr_grid *g = &j->grid;
    const int dense = j->y_pixel[2] == 1 && (j->y_pixel[1] == g->pixels[2] || g->pixels[1] * g->pixels[0] == 1) &&
                      (j->y_pixel[0] == g->pixels[1] * g->pixels[2] || g->pixels[0] == 1);
    int n = 0;
    for (; n < most && at < last; ++n, at += PANEL, runs += PANEL, staging += PANEL * j->rows) {
        FN(target) *t = targets + n;
        const int columns = last - at < PANEL ? (int)(last - at) : PANEL;
        t->part.runs = runs;
        t->part.n = sdbr_runs(g, at, columns, runs);
        t->part.width = FN(conv_width)(columns);
        t->direct = dense && columns == t->part.width && runs[0].image == runs[t->part.n - 1].image;
        t->c = staging;
        t->ldc = PANEL;
        if (t->direct) {
            t->c = j->y + runs[0].image * j->y_image + runs[0].pixel[0] * j->y_pixel[0] +
                   runs[0].pixel[1] * j->y_pixel[1] + runs[0].pixel[2];
            t->ldc = j->y_row;
        }
    }
    return n;
}

/* Rows [row, row + n) of a panel, the terms [k, k + part) of `depth`, in pieces. */
SDBR_INLINE void FN(add_part)(const FN(conv_job) *j, int64_t row, int64_t n, const FN(target) *t, int64_t k,
                              int64_t part, int64_t depth, const int64_t *steps, const T *panel) {
    const int64_t pieces = (part + j->piece - 1) / j->piece, piece = pieces > 1 ? (part + pieces - 1) / pieces : part;
    int64_t done = 0;
    do {
        const int64_t some = part - done < piece ? part - done : piece;
        const FN(conv_end) e = {k + done > 0, j->relu && k + done + some == depth};
        FN(conv_product)(t->part.width, n, j->w + row * j->w_row, j->w_row, steps + done, panel + done * PANEL_STEP,
                         PANEL_STEP, some, t->c + row * t->ldc, t->ldc, &e, j->bias == NULL ? NULL : j->bias + row);
        done += some;
    } while (done < part);
}

/* The pixels [first, last). `scratch` has room for a strip of panels and for rows x pixels of whole panels. */
static void FN(convolve)(const FN(conv_job) *j, int64_t first, int64_t last, T *scratch) {
    int64_t steps[SDBR_CONV_DEPTH];
    sdbr_run runs[SDBR_CONV_STRIP * PANEL];
    FN(target) targets[SDBR_CONV_STRIP];
    FN(part) parts[SDBR_CONV_STRIP];
    const int64_t depth = j->channels * sdbr_volume(j->grid.taps);
    T *staging = scratch + SDBR_CONV_STRIP * SDBR_CONV_DEPTH * PANEL_STEP;
    int64_t k = 0;
    do {
        const int64_t part = depth - k < SDBR_CONV_DEPTH ? depth - k : SDBR_CONV_DEPTH;
        /* So many panels fit into the first-level cache. */
        const int near = part == 0 || SDBR_CONV_DEPTH / part > SDBR_CONV_STRIP ? SDBR_CONV_STRIP
                                                                               : (int)(SDBR_CONV_DEPTH / part);
        if (part > 0)
            FN(weight_steps)(j, k, k + part, steps);
        for (int64_t at = first; at < last; at += near * PANEL) {
            const int n = FN(cut_strip)(j, at, last, near, staging + (at - first) * j->rows, runs, targets);
            for (int i = 0; i < n; ++i) {
                parts[i] = targets[i].part;
                parts[i].offset = i * part * PANEL_STEP;
            }
            if (part > 0)
                FN(pack_patches)(&j->grid, j->x, parts, n, k, k + part, scratch, PANEL_STEP);
            const int64_t step = n == 1 && part <= j->piece ? j->rows : SDBR_CONV_TILE;
            for (int64_t row = 0; row < j->rows; row += step)
                for (int i = 0; i < n; ++i)
                    FN(add_part)(j, row, j->rows - row < step ? j->rows - row : step, targets + i, k, part, depth,
                                 steps, scratch + parts[i].offset);
            if (k + part == depth)
                for (int i = 0; i < n; ++i)
                    if (!targets[i].direct)
                        FN(spread_panel)(j, targets[i].c, targets[i].ldc, parts[i].runs, parts[i].n);
        }
        k += part;
    } while (k < depth);
}

/* One of `parts` parts, `block` pixels at a time: some of the pixels or, where they are few, of the rows. */
static void FN(convolve_part)(const FN(conv_job) *whole, int64_t block, int64_t part, int64_t parts, T *scratch) {
    FN(conv_job) j = *whole;
    const int64_t pixels = j.grid.images * sdbr_volume(j.grid.pixels);
    int64_t first = 0, last = pixels;
    if (parts > 1 && (pixels >= 4 * parts * PANEL || j.rows < parts * SDBR_CONV_TILE)) {
        first = sdbr_begin(pixels, PANEL, part, parts);
        last = sdbr_begin(pixels, PANEL, part + 1, parts);
    } else if (parts > 1) {
        const int64_t row = sdbr_begin(j.rows, SDBR_CONV_TILE, part, parts);
        j.rows = sdbr_begin(j.rows, SDBR_CONV_TILE, part + 1, parts) - row;
        j.w += row * j.w_row;
        j.y += row * j.y_row;
        j.bias = j.bias == NULL ? NULL : j.bias + row;
    }
    for (; first < last; first += block)
        FN(convolve)(&j, first, last - first < block ? last : first + block, scratch);
}

static void FN(share_convolution)(const sdbr_op *op, int64_t part, int64_t parts) {
    const sdbr_conv *s = (const sdbr_conv *)op->ints;
    const T *x = (const T *)op->operands[0], *w = (const T *)op->operands[1];
    const T *bias = s->has_bias ? (const T *)op->operands[2] : NULL;
    T *y = (T *)op->operands[2 + s->has_bias], *scratch = (T *)op->operands[3 + s->has_bias];
    const int64_t pixels = sdbr_volume(s->out), taps = sdbr_volume(s->kernel);
    FN(conv_job) j = {.rows = s->o / s->groups, .channels = s->c / s->groups, .relu = (int)s->activation};
    j.piece = SDBR_CONV_DEPTH;
    j.w_row = j.channels * taps;
    j.w_channel = taps;
    j.w_tap[0] = s->kernel[1] * s->kernel[2];
    j.w_tap[1] = s->kernel[2];
    j.w_tap[2] = 1;
    j.y_image = s->o * pixels;
    j.y_row = pixels;
    j.y_pixel[0] = s->out[1] * s->out[2];
    j.y_pixel[1] = s->out[2];
    j.y_pixel[2] = 1;
    for (int64_t group = 0; group < s->groups; ++group) {
        j.grid = sdbr_grid_of_y(s, group);
        j.x = x + j.grid.before;
        j.w = w + group * j.rows * j.w_row;
        j.y = y + group * j.rows * pixels;
        j.bias = bias == NULL ? NULL : bias + group * j.rows;
        FN(convolve_part)(&j, s->block, part, parts, scratch + part * s->slot);
    }
}

static int FN(convolution)(const sdbr_op *op) {
    sdbr_share(op, ((const sdbr_conv *)op->ints)->shares, FN(share_convolution));
    return SDBR_OK;
}
