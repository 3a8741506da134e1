/* Pooling of x[n, d, h, w] to y[n, od, oh, ow], by dtype; C-contiguous.
 *
 * A row of windows is worked on as a whole: for each place of the window the elements there are taken
 * from a row of x, a stride apart, so that loops run over windows and not within them. Places beyond
 * the border are left out; what that means is up to the op. */

/* Windows of a row at a time. */
#define WINDOWS 256

/* y = x / divisor for `count` windows; see `divide` in the op table. */
SDBR_INLINE void FN(divide_windows)(const sdbr_pooling *p, int64_t divide, int64_t a, int64_t b, int64_t first,
                                    int64_t count, const T *x, T *y) {
    if (divide < 2) {
        const T d = divide ? (T)(p->k[0] * p->k[1] * p->k[2]) : 1;
        SDBR_IVDEP
        for (int64_t c = 0; c < count; c++)
            y[c] = x[c] / d;
        return;
    }
    const int64_t rows = sdbr_within(p, 0, a) * sdbr_within(p, 1, b);
    for (int64_t c = 0; c < count; c++)
        y[c] = x[c] / (T)(rows * sdbr_within(p, 2, first + c));
}

#include "pooling/tile.h"

/* One place of the windows of a row: y[c] takes from x[c * stride], for c from `low` to `high`. */
#define PLACES(place, ...) \
    if (place.step == 1) { \
        SDBR_IVDEP \
        for (int64_t c = place.low; c < place.high; c++) { \
            const int64_t at = c; \
            __VA_ARGS__ \
        } \
    } else if (place.step == 2) { \
        SDBR_IVDEP \
        for (int64_t c = place.low; c < place.high; c++) { \
            const int64_t at = 2 * c; \
            __VA_ARGS__ \
        } \
    } else { \
        for (int64_t c = place.low; c < place.high; c++) { \
            const int64_t at = c * place.step; \
            __VA_ARGS__ \
        } \
    }

/* best and its place, unless v is not larger; the first NaN stays. */
SDBR_INLINE void FN(take_larger)(const T *x, sdbr_places_of_row place, T *best, INT *arg, INT number) {
    PLACES(place, {
        const T v = x[at], m = best[c];
        const int better = !(v <= m) & (m == m);
        best[c] = better ? v : m;
        arg[c] = better ? number : arg[c];
    })
}

SDBR_INLINE void FN(take_larger_value)(const T *x, sdbr_places_of_row place, T *best) {
    PLACES(place, {
        const T v = x[at], m = best[c];
        best[c] = (!(v <= m) & (m == m)) ? v : m;
    })
}

/* The largest of windows first to first + count of row (a, b) of windows of one image. */
SDBR_INLINE void FN(max_of_windows)(const T *x, const sdbr_pooling *p, int64_t a, int64_t b, int64_t first,
                                    int64_t count, T *best, INT *arg) {
    for (int64_t c = 0; c < count; c++)
        best[c] = -(T)INFINITY;
    if (arg)
        for (int64_t c = 0; c < count; c++)
            arg[c] = 0;
    INT number = 0;
    for (int64_t i = 0; i < p->k[0]; i++)
        for (int64_t j = 0; j < p->k[1]; j++) {
            const int64_t z = a * p->s[0] - p->p[0] + i, y = b * p->s[1] - p->p[1] + j;
            if (z < 0 || z >= p->x[0] || y < 0 || y >= p->x[1]) {
                number += (INT)p->k[2];
                continue;
            }
            const T *row = x + (z * p->x[1] + y) * p->x[2];
            for (int64_t k = 0; k < p->k[2]; k++, number++) {
                const sdbr_places_of_row place = sdbr_places_in_row(p, k, first, count);
                if (arg)
                    FN(take_larger)(row + place.start, place, best, arg, number);
                else
                    FN(take_larger_value)(row + place.start, place, best);
            }
        }
}

/* ints: those of sdbr_pooling; operands: x, y. */
static int FN(max_pooling)(const sdbr_op *op) {
    const sdbr_pooling p = sdbr_pooling_of(op);
    const T *x = (const T *)op->operands[0];
    T *y = (T *)op->operands[1];
    if (FN(tiles_forward)(&p, x, 1, 0, y, NULL, 0))
        return SDBR_OK;
    for (int64_t n = 0; n < p.n; n++, x += p.size)
        for (int64_t a = 0; a < p.y[0]; a++)
            for (int64_t b = 0; b < p.y[1]; b++)
                for (int64_t c = 0; c < p.y[2]; c += WINDOWS) {
                    const int64_t count = p.y[2] - c < WINDOWS ? p.y[2] - c : WINDOWS;
                    FN(max_of_windows)(x, &p, a, b, c, count, y, NULL);
                    y += count;
                }
    return SDBR_OK;
}

/* ints: those of sdbr_pooling, dtype of the index; operands: x, y, index. */
static int FN(max_pooling_index)(const sdbr_op *op) {
    const sdbr_pooling p = sdbr_pooling_of(op);
    const int bytes = op->ints[SDBR_POOLING_INTS] == SDBR_U1;
    const T *x = (const T *)op->operands[0];
    T *y = (T *)op->operands[1];
    char *index = op->operands[2];
    INT arg[WINDOWS];
    if (FN(tiles_forward)(&p, x, 1, 0, y, index, bytes))
        return SDBR_OK;
    for (int64_t n = 0; n < p.n; n++, x += p.size)
        for (int64_t a = 0; a < p.y[0]; a++)
            for (int64_t b = 0; b < p.y[1]; b++)
                for (int64_t c = 0; c < p.y[2]; c += WINDOWS) {
                    const int64_t count = p.y[2] - c < WINDOWS ? p.y[2] - c : WINDOWS;
                    FN(max_of_windows)(x, &p, a, b, c, count, y, arg);
                    y += count;
                    if (bytes) {
                        for (int64_t i = 0; i < count; i++)
                            ((uint8_t *)index)[i] = (uint8_t)arg[i];
                        index += count;
                    } else {
                        for (int64_t i = 0; i < count; i++)
                            ((int32_t *)index)[i] = (int32_t)arg[i];
                        index += 4 * count;
                    }
                }
    return SDBR_OK;
}

/* --- gradients of the maximum -------------------------------------------------------------------- */

/* Windows of 2 x 2, 2 apart, all within the image: every element of gx is written once. */
static void FN(spread_wide_pairs)(const sdbr_pooling *p, const T *gy, const uint8_t *k, T *gx) {
    const int64_t width = p->x[2], covered = 2 * p->y[2];
    for (int64_t b = 0; b < p->y[1]; b++, gx += 2 * width) {
        T *above = gx, *below = gx + width;
        for (int64_t first = 0; first < p->y[2]; first += WINDOWS) {
            const int64_t count = p->y[2] - first < WINDOWS ? p->y[2] - first : WINDOWS;
            INT at[WINDOWS]; /* as wide as the numbers, for the vectors' sake */
            for (int64_t c = 0; c < count; c++)
                at[c] = k[c];
            SDBR_IVDEP
            for (int64_t c = 0; c < count; c++) {
                above[2 * c] = at[c] == 0 ? gy[c] : 0;
                above[2 * c + 1] = at[c] == 1 ? gy[c] : 0;
            }
            SDBR_IVDEP
            for (int64_t c = 0; c < count; c++) {
                below[2 * c] = at[c] == 2 ? gy[c] : 0;
                below[2 * c + 1] = at[c] == 3 ? gy[c] : 0;
            }
            above += 2 * count;
            below += 2 * count;
            gy += count;
            k += count;
        }
        for (int64_t c = covered; c < width; c++)
            gx[c] = gx[width + c] = 0;
    }
    for (int64_t i = 0; i < (p->x[1] - 2 * p->y[1]) * width; i++)
        gx[i] = 0;
}

/* The same for rows that are too short for that; several images, so that zeros are set in one go. */
static void FN(spread_narrow_pairs)(const sdbr_pooling *p, int64_t images, const T *gy, const uint8_t *k, T *gx) {
    const int64_t width = p->x[2];
    memset(gx, 0, (size_t)(images * p->size) * sizeof(T));
    for (int64_t n = 0; n < images; n++, gx += p->size)
        for (int64_t b = 0; b < p->y[1]; b++, gy += p->y[2], k += p->y[2]) {
            T *row = gx + 2 * b * width;
            for (int64_t c = 0; c < p->y[2]; c++)
                row[2 * c + (k[c] & 1) + (k[c] >> 1 & 1) * width] = gy[c];
        }
}

static void FN(spread_pairs)(const sdbr_pooling *p, const T *gy, const uint8_t *k, T *gx) {
    const int64_t group = p->y[2] >= 16 ? 1 : p->size < 4096 ? 4096 / p->size : 1;
    for (int64_t n = 0; n < p->n; n += group) {
        const int64_t images = p->n - n < group ? p->n - n : group, at = n * p->windows;
        if (p->y[2] >= 16)
            FN(spread_wide_pairs)(p, gy + at, k + at, gx + n * p->size);
        else
            FN(spread_narrow_pairs)(p, images, gy + at, k + at, gx + n * p->size);
    }
}

/* Adds the gradients of one row of windows. */
SDBR_INLINE void FN(spread_row)(const sdbr_pooling *p, const sdbr_window_place *kept, int64_t a, int64_t b, const T *gy,
                                const char *k, int64_t code, int64_t from, T *gx) {
    const int64_t z0 = a * p->s[0] - p->p[0], y0 = b * p->s[1] - p->p[1], places = p->k[0] * p->k[1] * p->k[2];
    for (int64_t c = 0; c < p->y[2]; c++) {
        const int64_t at = sdbr_wrap(sdbr_label(k, code, from + c), places);
        const int64_t offset = sdbr_place_in_image(p, kept, z0, y0, c * p->s[2] - p->p[2], at);
        if (offset >= 0)
            gx[offset] += gy[c];
    }
}

static void FN(spread_all)(const sdbr_op *op, const sdbr_pooling *p, const char *k, int64_t code) {
    const T *gy = (const T *)op->operands[0];
    T *gx = (T *)op->operands[2];
    sdbr_window_place kept[SDBR_PLACES_KEPT];
    int64_t from = 0;
    if (p->pairs && code == SDBR_U1 && p->windows > 0) {
        FN(spread_pairs)(p, gy, (const uint8_t *)k, gx);
        return;
    }
    if (FN(tiles_backward)(p, gy, k, code, 0, gx))
        return;
    sdbr_keep_places(p, kept);
    for (int64_t n = 0; n < p->n; n++, gx += p->size) {
        memset(gx, 0, (size_t)p->size * sizeof(T));
        for (int64_t a = 0; a < p->y[0]; a++)
            for (int64_t b = 0; b < p->y[1]; b++, from += p->y[2]) {
                if (code == SDBR_U1) /* a constant for the loop within */
                    FN(spread_row)(p, kept, a, b, gy + from, k, SDBR_U1, from, gx);
                else
                    FN(spread_row)(p, kept, a, b, gy + from, k, code, from, gx);
            }
    }
}

/* ints: those of sdbr_pooling, dtype of the index; operands: gy, index, gx. */
static int FN(max_pooling_grad)(const sdbr_op *op) {
    const sdbr_pooling p = sdbr_pooling_of(op);
    FN(spread_all)(op, &p, op->operands[1], op->ints[SDBR_POOLING_INTS]);
    return SDBR_OK;
}

/* The same for an index that somebody else made. */
static int FN(max_pooling_grad_checked)(const sdbr_op *op) {
    const sdbr_pooling p = sdbr_pooling_of(op);
    const int64_t code = op->ints[SDBR_POOLING_INTS], places = p.k[0] * p.k[1] * p.k[2];
    char *k = op->operands[1];
    const int status = sdbr_own_labels(op, &k, code, p.n * p.windows, places, 0, 0);
    if (status != SDBR_OK)
        return status;
    FN(spread_all)(op, &p, k, code);
    return SDBR_OK;
}

/* ints: those of sdbr_pooling, dtype of the index, zero; operands: x, index, y. */
static int FN(max_pooling_pick)(const sdbr_op *op) {
    const sdbr_pooling p = sdbr_pooling_of(op);
    const int64_t code = op->ints[SDBR_POOLING_INTS], places = p.k[0] * p.k[1] * p.k[2];
    const T border = op->ints[SDBR_POOLING_INTS + 1] ? 0 : -(T)INFINITY, *x = (const T *)op->operands[0];
    char *k = op->operands[1];
    T *y = (T *)op->operands[2];
    const int status = sdbr_own_labels(op, &k, code, p.n * p.windows, places, 0, 0);
    if (status != SDBR_OK)
        return status;
    sdbr_window_place kept[SDBR_PLACES_KEPT];
    int64_t i = 0;
    sdbr_keep_places(&p, kept);
    for (int64_t n = 0; n < p.n; n++, x += p.size)
        for (int64_t a = 0; a < p.y[0]; a++)
            for (int64_t b = 0; b < p.y[1]; b++)
                for (int64_t c = 0; c < p.y[2]; c++, i++) {
                    const int64_t at = sdbr_wrap(sdbr_label(k, code, i), places);
                    const int64_t offset = sdbr_place_in_image(&p, kept, a * p.s[0] - p.p[0], b * p.s[1] - p.p[1],
                                                               c * p.s[2] - p.p[2], at);
                    y[i] = offset < 0 ? border : x[offset];
                }
    return SDBR_OK;
}

/* --- averages ------------------------------------------------------------------------------------- */

/* The sums of windows first to first + count of row (a, b): row by row, and these added up. */
SDBR_INLINE void FN(sum_of_windows)(const T *x, const sdbr_pooling *p, int64_t a, int64_t b, int64_t first,
                                    int64_t count, T *sum) {
    T part[WINDOWS];
    for (int64_t c = 0; c < count; c++)
        sum[c] = 0;
    for (int64_t i = 0; i < p->k[0]; i++)
        for (int64_t j = 0; j < p->k[1]; j++) {
            const int64_t z = a * p->s[0] - p->p[0] + i, y = b * p->s[1] - p->p[1] + j;
            if (z < 0 || z >= p->x[0] || y < 0 || y >= p->x[1])
                continue;
            const T *row = x + (z * p->x[1] + y) * p->x[2];
            for (int64_t c = 0; c < count; c++)
                part[c] = 0;
            for (int64_t k = 0; k < p->k[2]; k++) {
                const sdbr_places_of_row place = sdbr_places_in_row(p, k, first, count);
                const T *from = row + place.start;
                PLACES(place, { part[c] += from[at]; })
            }
            for (int64_t c = 0; c < count; c++)
                sum[c] += part[c];
        }
}

/* ints: those of sdbr_pooling, divide; operands: x, y. */
static int FN(average_pooling)(const sdbr_op *op) {
    const sdbr_pooling p = sdbr_pooling_of(op);
    const T *x = (const T *)op->operands[0];
    T *y = (T *)op->operands[1];
    if (FN(tiles_forward)(&p, x, 0, op->ints[SDBR_POOLING_INTS], y, NULL, 0))
        return SDBR_OK;
    for (int64_t n = 0; n < p.n; n++, x += p.size)
        for (int64_t a = 0; a < p.y[0]; a++)
            for (int64_t b = 0; b < p.y[1]; b++)
                for (int64_t c = 0; c < p.y[2]; c += WINDOWS) {
                    const int64_t count = p.y[2] - c < WINDOWS ? p.y[2] - c : WINDOWS;
                    FN(sum_of_windows)(x, &p, a, b, c, count, y);
                    FN(divide_windows)(&p, op->ints[SDBR_POOLING_INTS], a, b, c, count, y, y);
                    y += count;
                }
    return SDBR_OK;
}

/* ints: those of sdbr_pooling, divide; operands: gy, gx. */
static int FN(average_pooling_grad)(const sdbr_op *op) {
    const sdbr_pooling p = sdbr_pooling_of(op);
    const T *gy = (const T *)op->operands[0];
    T *gx = (T *)op->operands[1], share[WINDOWS];
    if (FN(tiles_backward)(&p, gy, NULL, 0, op->ints[SDBR_POOLING_INTS], gx))
        return SDBR_OK;
    for (int64_t n = 0; n < p.n; n++, gx += p.size) {
        memset(gx, 0, (size_t)p.size * sizeof(T));
        for (int64_t a = 0; a < p.y[0]; a++)
            for (int64_t b = 0; b < p.y[1]; b++)
                for (int64_t first = 0; first < p.y[2]; first += WINDOWS) {
                    const int64_t count = p.y[2] - first < WINDOWS ? p.y[2] - first : WINDOWS;
                    FN(divide_windows)(&p, op->ints[SDBR_POOLING_INTS], a, b, first, count, gy, share);
                    gy += count;
                    for (int64_t i = 0; i < p.k[0]; i++)
                        for (int64_t j = 0; j < p.k[1]; j++) {
                            const int64_t z = a * p.s[0] - p.p[0] + i, y = b * p.s[1] - p.p[1] + j;
                            if (z < 0 || z >= p.x[0] || y < 0 || y >= p.x[1])
                                continue;
                            T *row = gx + (z * p.x[1] + y) * p.x[2];
                            for (int64_t k = 0; k < p.k[2]; k++) {
                                const sdbr_places_of_row place = sdbr_places_in_row(&p, k, first, count);
                                T *to = row + place.start;
                                PLACES(place, { to[at] += share[c]; })
                            }
                        }
                }
    }
    return SDBR_OK;
}

#undef WINDOWS
#undef PLACES
