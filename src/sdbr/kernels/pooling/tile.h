/* Pooling over two axes by tiles, by dtype.
 *
 * Images are brought into an arrangement where all windows of a tile lie side by side: the pixels of
 * each phase of the stride together, rows after each other, so that place (j, k) of the window of row b
 * and column c is at offset(j, k) + b * pitch + c. One loop then goes over all windows of the tile, and
 * it is as long for small images, of which a tile takes several, as for large ones, of which it takes
 * some rows. */

#define TILE_LANES ((int64_t)(SDBR_VECTOR_BYTES / sizeof(T)))

typedef T FN(tile_vec) __attribute__((vector_size(SDBR_VECTOR_BYTES)));
typedef INT FN(tile_ivec) __attribute__((vector_size(SDBR_VECTOR_BYTES)));

SDBR_INLINE FN(tile_vec) FN(tile_load)(const T *x) {
    FN(tile_vec) v;
    memcpy(&v, x, sizeof v);
    return v;
}

/* The pixels of a tile by phases; what is beyond the border is `border`. */
static void FN(tile_fill)(const sdbr_tile *t, const T *x, int64_t row0, T border, T *pixels) {
    const sdbr_pooling *p = t->p;
    for (int64_t j = 0; j < p->s[1]; j++)
        for (int64_t k = 0; k < p->s[2]; k++) {
            const sdbr_places_of_row c = sdbr_places_in_row(p, k, 0, t->pitch);
            T *to = pixels + (j * p->s[2] + k) * t->phase;
            for (int64_t image = 0; image < t->images; image++)
                for (int64_t r = 0; r < t->rows; r++, to += t->pitch) {
                    const int64_t y = (row0 + r) * p->s[1] + j - p->p[1];
                    const int inside = y >= 0 && y < p->x[1];
                    const int64_t low = inside ? c.low : t->pitch, high = inside ? c.high : t->pitch;
                    const T *from = x + image * p->size + y * p->x[2] + c.start;
                    for (int64_t i = 0; i < low && i < t->pitch; i++)
                        to[i] = border;
                    if (c.step == 1)
                        for (int64_t i = low; i < high; i++)
                            to[i] = from[i];
                    else if (c.step == 2)
                        for (int64_t i = low; i < high; i++)
                            to[i] = from[2 * i];
                    else
                        for (int64_t i = low; i < high; i++)
                            to[i] = from[i * c.step];
                    for (int64_t i = high > low ? high : low; i < t->pitch; i++)
                        to[i] = border;
                }
        }
}

/* The same for windows of 2 x 2, 2 apart, within the image. */
static void FN(tile_fill_pairs)(const sdbr_tile *t, const T *x, int64_t row0, T *pixels) {
    const int64_t width = t->p->x[2], n = t->pitch;
    T *a = pixels, *b = a + t->phase, *c = b + t->phase, *d = c + t->phase;
    for (int64_t image = 0; image < t->images; image++)
        for (int64_t r = 0; r < t->rows; r++, a += n, b += n, c += n, d += n) {
            const T *above = x + image * t->p->size + 2 * (row0 + r) * width, *below = above + width;
            SDBR_IVDEP
            for (int64_t i = 0; i < n; i++) {
                a[i] = above[2 * i];
                b[i] = above[2 * i + 1];
            }
            SDBR_IVDEP
            for (int64_t i = 0; i < n; i++) {
                c[i] = below[2 * i];
                d[i] = below[2 * i + 1];
            }
        }
}

/* The largest of each window and its place, or the first NaN. */
static void FN(tile_max)(const sdbr_tile *t, const T *pixels, T *best, INT *arg) {
    for (int64_t i = 0; i < t->count; i += TILE_LANES) {
        FN(tile_vec) m = FN(tile_load)(pixels + t->offset[0] + i);
        const FN(tile_ivec) none = m != m;
        FN(tile_ivec) at = none ^ none;
        for (int64_t k = 1; k < t->places; k++) {
            const FN(tile_vec) v = FN(tile_load)(pixels + t->offset[k] + i);
            const FN(tile_ivec) more = ~(v <= m) & (m == m);
            m = (FN(tile_vec))(((FN(tile_ivec))v & more) | ((FN(tile_ivec))m & ~more));
            at = (more & (INT)k) | (at & ~more);
        }
        memcpy(best + i, &m, sizeof m);
        memcpy(arg + i, &at, sizeof at);
    }
}

static void FN(tile_sum)(const sdbr_tile *t, const T *pixels, T *sum) {
    for (int64_t i = 0; i < t->count; i += TILE_LANES) {
        FN(tile_vec) s = FN(tile_load)(pixels + t->offset[0] + i);
        for (int64_t k = 1; k < t->places; k++)
            s += FN(tile_load)(pixels + t->offset[k] + i);
        memcpy(sum + i, &s, sizeof s);
    }
}

/* Tile after tile; y gets the largest of each window, or its sum divided; index (unless NULL) where it
 * was. False when tiles do not serve these windows. */
static int FN(tiles_forward)(const sdbr_pooling *p, const T *x, int maximum, int64_t divide, T *y, char *index,
                             int bytes) {
    T pixels[SDBR_TILE_PIXELS + 64], best[SDBR_TILE_WINDOWS + 64];
    INT arg[SDBR_TILE_WINDOWS + 64];
    int64_t offset[SDBR_TILE_PLACES];
    sdbr_tile t;
    if (!sdbr_tile_of(p, &t, offset))
        return 0;
    for (int64_t n = 0; n < p->n; n += t.images)
        for (int64_t b = 0; b < p->y[1]; b += t.windows) {
            sdbr_tile_ends(&t, p->n - n, p->y[1] - b);
            if (p->pairs)
                FN(tile_fill_pairs)(&t, x + n * p->size, b, pixels);
            else
                FN(tile_fill)(&t, x + n * p->size, b, maximum ? -(T)INFINITY : 0, pixels);
            if (maximum)
                FN(tile_max)(&t, pixels, best, arg);
            else
                FN(tile_sum)(&t, pixels, best);
            for (int64_t image = 0; image < t.images; image++)
                for (int64_t r = 0; r < t.windows; r += t.run) {
                    const int64_t at = (image * t.rows + r) * t.pitch;
                    const int64_t to = (n + image) * p->windows + (b + r) * p->y[2], count = t.run * p->y[2];
                    for (int64_t c = 0; c < count; c++)
                        y[to + c] = best[at + c];
                    if (index && bytes)
                        for (int64_t c = 0; c < count; c++)
                            ((uint8_t *)index)[to + c] = (uint8_t)arg[at + c];
                    else if (index)
                        for (int64_t c = 0; c < count; c++)
                            ((int32_t *)index)[to + c] = (int32_t)arg[at + c];
                    for (int64_t k = 0; divide && k < t.run; k++)
                        FN(divide_windows)(p, divide, 0, b + r + k, 0, p->y[2], y + to + k * p->y[2],
                                           y + to + k * p->y[2]);
                }
        }
    return 1;
}

/* Adds to gx what each window hands to its places: `share` to all of them, or to the one that `arg`
 * (unless NULL) names. Both have as much room in front as a place may lie back. */
static void FN(tile_spread)(const sdbr_tile *t, const T *share, const INT *arg, int64_t row0, T *gx) {
    const sdbr_pooling *p = t->p;
    T sums[SDBR_TILE_WINDOWS + 64];
    for (int64_t j = 0; j < p->s[1] && j < p->k[1]; j++)
        for (int64_t k = 0; k < p->s[2] && k < p->k[2]; k++) {
            int64_t mine[SDBR_TILE_PLACES], n = 0;
            for (int64_t jj = j; jj < p->k[1]; jj += p->s[1])
                for (int64_t kk = k; kk < p->k[2]; kk += p->s[2])
                    mine[n++] = jj * p->k[2] + kk;
            for (int64_t i = 0; i < t->phase; i += TILE_LANES) {
                FN(tile_vec) s = {0};
                for (int64_t m = 0; m < n; m++) {
                    const int64_t from = i - (t->offset[mine[m]] - t->offset[mine[0]]);
                    FN(tile_vec) v = FN(tile_load)(share + from);
                    if (arg) {
                        FN(tile_ivec) at;
                        memcpy(&at, arg + from, sizeof at);
                        v = (FN(tile_vec))((FN(tile_ivec))v & (at == (INT)mine[m]));
                    }
                    s += v;
                }
                memcpy(sums + i, &s, sizeof s);
            }
            const sdbr_places_of_row c = sdbr_places_in_row(p, k, 0, t->pitch);
            for (int64_t image = 0; image < t->images; image++)
                for (int64_t r = 0; r < t->rows; r++) {
                    const int64_t y = (row0 + r) * p->s[1] + j - p->p[1];
                    const T *from = sums + (image * t->rows + r) * t->pitch;
                    T *to = gx + image * p->size + y * p->x[2] + c.start;
                    if (y < 0 || y >= p->x[1])
                        continue;
                    for (int64_t i = c.low; i < c.high; i++)
                        to[i * c.step] += from[i];
                }
        }
}

/* Tile after tile; see tiles_forward. The gradients of the largest where `index` is not NULL. */
static int FN(tiles_backward)(const sdbr_pooling *p, const T *gy, const char *index, int64_t code, int64_t divide,
                              T *gx) {
    T shares[2 * SDBR_TILE_WINDOWS + 64];
    INT args[2 * SDBR_TILE_WINDOWS + 64];
    int64_t offset[SDBR_TILE_PLACES];
    sdbr_tile t;
    if ((index && code != SDBR_U1) || !sdbr_tiles_pay_backward(p) || !sdbr_tile_of(p, &t, offset))
        return 0;
    T *share = shares + SDBR_TILE_WINDOWS;
    INT *arg = args + SDBR_TILE_WINDOWS;
    memset(shares, 0, sizeof shares);
    memset(args, 0, sizeof args);
    memset(gx, 0, (size_t)(p->n * p->size) * sizeof(T));
    for (int64_t n = 0; n < p->n; n += t.images)
        for (int64_t b = 0; b < p->y[1]; b += t.windows) {
            sdbr_tile_ends(&t, p->n - n, p->y[1] - b);
            memset(share, 0, sizeof(T) * (SDBR_TILE_WINDOWS + 64));
            for (int64_t image = 0; image < t.images; image++)
                for (int64_t r = 0; r < t.windows; r++) {
                    const int64_t at = (image * t.rows + r) * t.pitch;
                    const int64_t from = (n + image) * p->windows + (b + r) * p->y[2];
                    if (index) {
                        for (int64_t c = 0; c < p->y[2]; c++)
                            share[at + c] = gy[from + c];
                        for (int64_t c = 0; c < p->y[2]; c++)
                            arg[at + c] = ((const uint8_t *)index)[from + c];
                    } else {
                        FN(divide_windows)(p, divide, 0, b + r, 0, p->y[2], gy + from, share + at);
                    }
                }
            FN(tile_spread)(&t, share, index ? arg : NULL, b, gx + n * p->size);
        }
    return 1;
}

#undef TILE_LANES
