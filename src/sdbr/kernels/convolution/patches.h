/* Patches of x as rows of a panel, for one dtype: what a product with w reads.
 *
 * A row belongs to one channel and one element of the kernel (tap); its columns are pixels. It is put
 * together from pieces, one vector each: lanes that are no part of x become zeros, lanes that belong to
 * the next piece are overwritten by it. So what lies behind a row, up to a vector, is overwritten, too. */

#define LANES ((int)(SDBR_GEMM_BYTES / sizeof(T)))
#define V FN(patch_vector)
#define I FN(patch_bits)

typedef T V __attribute__((vector_size(SDBR_GEMM_BYTES), aligned(sizeof(T)), may_alias));
typedef INT I __attribute__((vector_size(SDBR_GEMM_BYTES), aligned(sizeof(T)), may_alias));

#if SDBR_GEMM_BYTES == 64 && SDBR_FLOATS
#define SDBR_EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#elif (SDBR_GEMM_BYTES == 64 && !SDBR_FLOATS) || (SDBR_GEMM_BYTES == 32 && SDBR_FLOATS)
#define SDBR_EVEN 0, 2, 4, 6, 8, 10, 12, 14
#elif (SDBR_GEMM_BYTES == 32 && !SDBR_FLOATS) || (SDBR_GEMM_BYTES == 16 && SDBR_FLOATS)
#define SDBR_EVEN 0, 2, 4, 6
#else
#define SDBR_EVEN 0, 2
#endif

/* Of a strip of panels, or of as many pixels of convolution_grad_w: a piece per pixel at most, and one
 * for the rest of each panel. */
#define SDBR_PIECES (SDBR_CONV_STRIP * (PANEL + 1) > 66 ? SDBR_CONV_STRIP * (PANEL + 1) : 66)

typedef struct FN(pieces) {
    int n;
    int64_t first, last; /* the range of elements that they read, from the channel on */
    int64_t from[SDBR_PIECES];
    int32_t at[SDBR_PIECES];
    int32_t low[SDBR_PIECES], high[SDBR_PIECES]; /* lanes of x */
    I masks[SDBR_PIECES];
} FN(pieces);

/* Columns of one or more panels side by side: where the rows of each begin, and its runs. */
typedef struct FN(part) {
    int64_t offset;
    const sdbr_run *runs;
    int n, width;
} FN(part);

SDBR_INLINE int64_t FN(ceiling)(int64_t a, int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }

/* The columns [low, high) of a run for which one tap lies in x; returns where the tap of its first
 * column lies in the channel. */
SDBR_INLINE int64_t FN(reads)(const sdbr_grid *g, const sdbr_run *run, const int64_t *tap, int64_t *low, int64_t *high) {
    const int64_t z = run->start[0] + tap[0] * g->dilate[0], y = run->start[1] + tap[1] * g->dilate[1];
    const int64_t x = run->start[2] + tap[2] * g->dilate[2];
    *low = *high = 0;
    if (z < 0 || z >= g->size[0] || y < 0 || y >= g->size[1])
        return 0;
    *high = run->length;
    if (x < 0)
        *low = FN(ceiling)(-x, g->stride[2]);
    if (x + (run->length - 1) * g->stride[2] >= g->size[2])
        *high = FN(ceiling)(g->size[2] - x, g->stride[2]);
    if (*low >= *high) {
        *low = *high = 0;
        return 0;
    }
    return run->image * g->x_image + (z * g->size[1] + y) * g->size[2] + x;
}

/* The pieces of the rows of one tap. */
static void FN(find_pieces)(const sdbr_grid *g, const FN(part) *parts, int n_parts, const int64_t *tap, FN(pieces) *p) {
    /* A window into these numbers is the mask of a range of lanes. */
    static const INT ones[48] = {0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
                                 -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                 0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0};
    const int64_t stride = g->stride[2];
    int count = 0;
    p->first = INT64_MAX;
    p->last = INT64_MIN;
    for (int i = 0; i < n_parts; ++i) {
        const FN(part) *part = parts + i;
        int at = 0;
        for (int r = 0; r <= part->n; ++r) {
            int64_t low = 0, high = 0, from = 0;
            int end = part->width;
            if (r < part->n) {
                from = FN(reads)(g, part->runs + r, tap, &low, &high);
                end = at + part->runs[r].length;
            }
            for (; at < end; at += LANES, low -= LANES, high -= LANES, from += LANES * stride, ++count) {
                const int begin = (int)(low > 0 ? low : 0), stop = (int)(high < LANES ? high : LANES);
                p->at[count] = (int32_t)(part->offset + at);
                p->low[count] = begin;
                p->high[count] = stop;
                p->from[count] = from;
                if (begin >= stop) { /* no lane of x: any address will do */
                    p->low[count] = p->high[count] = 0;
                    p->from[count] = 0;
                }
                p->first = p->from[count] < p->first ? p->from[count] : p->first;
                p->last = p->from[count] > p->last ? p->from[count] : p->last;
                p->masks[count] = *(const I *)(ones + 16 - p->low[count]) & *(const I *)(ones + 32 - p->high[count]);
            }
            at = end;
        }
    }
    p->last += LANES * stride;
    p->n = count;
}

/* Whether no tap of any run lies outside of x. */
static int FN(all_inside)(const sdbr_grid *g, const FN(part) *parts, int n_parts) {
    for (int i = 0; i < n_parts; ++i)
        for (int r = 0; r < parts[i].n; ++r)
            for (int axis = 0; axis < 3; ++axis) {
                const sdbr_run *run = parts[i].runs + r;
                const int64_t reach = (g->taps[axis] - 1) * g->dilate[axis];
                const int64_t along = axis == 2 ? (run->length - 1) * g->stride[2] : 0;
                if (run->start[axis] + (reach < 0 ? reach : 0) < 0 ||
                    run->start[axis] + (reach > 0 ? reach : 0) + along >= g->size[axis])
                    return 0;
            }
    return 1;
}

/* The LANES elements at p, p + stride, ... */
SDBR_INLINE V FN(load_every)(const T *p, const int64_t stride) {
    if (stride == 1)
        return *(const V *)p;
    if (stride == 2)
        return SDBR_SHUFFLE(*(const V *)p, *(const V *)(p + LANES), I, SDBR_EVEN);
    const V a = SDBR_SHUFFLE(*(const V *)p, *(const V *)(p + LANES), I, SDBR_EVEN);
    const V b = SDBR_SHUFFLE(*(const V *)(p + 2 * LANES), *(const V *)(p + 3 * LANES), I, SDBR_EVEN);
    return SDBR_SHUFFLE(a, b, I, SDBR_EVEN);
}

/* The rows of one tap for some channels: row, row + step, ... */
SDBR_INLINE void FN(write_rows)(const FN(pieces) *p, const T *x, int64_t x_channel, int64_t channels, T *row,
                                int64_t step, const int64_t stride) {
    for (int64_t c = 0; c < channels; ++c, x += x_channel, row += step)
        for (int i = 0; i < p->n; ++i)
            *(V *)(row + p->at[i]) = (V)((I)FN(load_every)(x + p->from[i], stride) & p->masks[i]);
}

/* The same where vectors would reach beyond the array, or for other strides. */
static void FN(write_row)(const FN(pieces) *p, const T *x, T *row, int64_t stride) {
    for (int i = 0; i < p->n; ++i)
        for (int j = 0; j < LANES; ++j)
            row[p->at[i] + j] = j >= p->low[i] && j < p->high[i] ? x[p->from[i] + j * stride] : (T)0;
}

/* The rows of one tap for the channels [c, last). `offset` is added to what the pieces say of x. */
static void FN(pack_tap)(const sdbr_grid *g, const FN(pieces) *p, const T *x, int64_t offset, int64_t c, int64_t last,
                         T *row, int64_t step) {
    const int64_t stride = g->stride[2];
    const int quick = stride == 1 || stride == 2 || stride == 4;
    while (c < last) {
        const T *from = x + offset + c * g->x_channel;
        int64_t end = c;
        if (quick && p->first + offset + c * g->x_channel + g->before >= 0) {
            /* As many channels as vectors stay inside the array for. */
            const int64_t room = g->after - p->last - offset;
            end = room < 0 ? c : room / (g->x_channel > 0 ? g->x_channel : 1) + 1;
            end = end < c ? c : end < last ? end : last;
        }
        if (end == c) {
            FN(write_row)(p, from, row, stride);
            end = c + 1;
        } else if (stride == 1)
            FN(write_rows)(p, from, g->x_channel, end - c, row, step, 1);
        else if (stride == 2)
            FN(write_rows)(p, from, g->x_channel, end - c, row, step, 2);
        else
            FN(write_rows)(p, from, g->x_channel, end - c, row, step, 4);
        row += (end - c) * step;
        c = end;
    }
}

/* rows[k - begin, column] for the rows [begin, end) of all patches, k = channel * taps + tap, `ld` from row
 * to row; x is the first channel. Columns behind the last run become zeros; a row has room for LANES more. */
static void FN(pack_patches)(const sdbr_grid *g, const T *x, const FN(part) *parts, int n_parts, int64_t begin,
                             int64_t end, T *rows, int64_t ld) {
    FN(pieces) pieces;
    const int64_t taps = sdbr_volume(g->taps);
    const int64_t first = begin / taps, last = (end - 1) / taps;
    const int inside = FN(all_inside)(g, parts, n_parts);
    int64_t tap[3] = {0, 0, 0};
    int64_t t = 0;
    if (inside)
        FN(find_pieces)(g, parts, n_parts, tap, &pieces);
    for (tap[0] = 0; tap[0] < g->taps[0]; ++tap[0])
        for (tap[1] = 0; tap[1] < g->taps[1]; ++tap[1])
            for (tap[2] = 0; tap[2] < g->taps[2]; ++tap[2], ++t) {
                const int64_t c = first * taps + t < begin ? first + 1 : first;
                const int64_t stop = last * taps + t < end ? last + 1 : last;
                int64_t offset = 0;
                if (c >= stop)
                    continue;
                if (inside)
                    offset = (tap[0] * g->dilate[0] * g->size[1] + tap[1] * g->dilate[1]) * g->size[2] +
                             tap[2] * g->dilate[2];
                else
                    FN(find_pieces)(g, parts, n_parts, tap, &pieces);
                FN(pack_tap)(g, &pieces, x, offset, c, stop, rows + (c * taps + t - begin) * ld, taps * ld);
            }
}

#undef LANES
#undef V
#undef I
#undef SDBR_EVEN
#undef SDBR_PIECES
