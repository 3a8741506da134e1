/* Sizes of pooling, and where the places of a window lie. */
#ifndef SDBR_POOLING_SHAPE_H
#define SDBR_POOLING_SHAPE_H

#include "frame/label.h"

/* The first integers of an op of pooling, in this order; what comes after them belongs to the op. */
typedef struct sdbr_pooling {
    int64_t n, x[3], y[3], k[3], s[3], p[3];
    int64_t size, windows; /* elements and windows of an image */
    int pairs;             /* windows of 2 x 2, 2 apart, none beyond the border */
} sdbr_pooling;

enum { SDBR_POOLING_INTS = 16 };

SDBR_INLINE sdbr_pooling sdbr_pooling_of(const sdbr_op *op) {
    sdbr_pooling p;
    memcpy(&p, op->ints, SDBR_POOLING_INTS * sizeof(int64_t));
    p.size = p.x[0] * p.x[1] * p.x[2];
    p.windows = p.y[0] * p.y[1] * p.y[2];
    p.pairs = p.x[0] == 1 && p.y[0] == 1 && p.k[0] == 1 && p.p[0] == 0;
    for (int i = 1; i < 3; i++)
        p.pairs &= p.k[i] == 2 && p.s[i] == 2 && p.p[i] == 0 && 2 * p.y[i] <= p.x[i];
    return p;
}

/* Place k of `count` windows of a row from window `first` on: window first + c has it at
 * start + c * step, for c from `low` up to `high`; for others it is beyond the border. */
typedef struct sdbr_places_of_row {
    int64_t start, step, low, high;
} sdbr_places_of_row;

SDBR_INLINE sdbr_places_of_row sdbr_places_in_row(const sdbr_pooling *p, int64_t k, int64_t first, int64_t count) {
    const int64_t s = p->s[2], start = first * s - p->p[2] + k, room = p->x[2] - start;
    sdbr_places_of_row r = {start, s, start < 0 ? (-start + s - 1) / s : 0, room > 0 ? (room + s - 1) / s : 0};
    r.high = r.high < count ? r.high : count;
    return r;
}

/* A place within a window: along each axis, and from its start in memory. */
typedef struct sdbr_window_place {
    int32_t z, y, x;
    int64_t offset;
} sdbr_window_place;

enum { SDBR_PLACES_KEPT = 256 };

SDBR_INLINE sdbr_window_place sdbr_place_in_window(const sdbr_pooling *p, int64_t number) {
    const int64_t area = p->k[1] * p->k[2], rest = number % area;
    sdbr_window_place w = {(int32_t)(number / area), (int32_t)(rest / p->k[2]), (int32_t)(rest % p->k[2]), 0};
    w.offset = (w.z * p->x[1] + w.y) * p->x[2] + w.x;
    return w;
}

/* The first places, so that nothing is divided for each window. */
static void sdbr_keep_places(const sdbr_pooling *p, sdbr_window_place *kept) {
    const int64_t all = p->k[0] * p->k[1] * p->k[2], n = all < SDBR_PLACES_KEPT ? all : SDBR_PLACES_KEPT;
    for (int64_t i = 0; i < n; i++)
        kept[i] = sdbr_place_in_window(p, i);
}

/* Where place `number` of the window at (z, y, x) is in the image; -1 beyond the border, and for a
 * number that is no place: nobody has looked at an index that this program says is known. */
SDBR_INLINE int64_t sdbr_place_in_image(const sdbr_pooling *p, const sdbr_window_place *kept, int64_t z, int64_t y,
                                        int64_t x, int64_t number) {
    if ((uint64_t)number >= (uint64_t)(p->k[0] * p->k[1] * p->k[2]))
        return -1;
    const sdbr_window_place w = number < SDBR_PLACES_KEPT ? kept[number] : sdbr_place_in_window(p, number);
    const int inside = ((uint64_t)(z + w.z) < (uint64_t)p->x[0]) & ((uint64_t)(y + w.y) < (uint64_t)p->x[1]) &
                       ((uint64_t)(x + w.x) < (uint64_t)p->x[2]);
    return inside ? (z * p->x[1] + y) * p->x[2] + x + w.offset : -1;
}

/* How much of window number c along an axis is within the image. */
SDBR_INLINE int64_t sdbr_within(const sdbr_pooling *p, int axis, int64_t c) {
    const int64_t start = c * p->s[axis] - p->p[axis], end = start + p->k[axis];
    return (end < p->x[axis] ? end : p->x[axis]) - (start > 0 ? start : 0);
}

/* A tile: some rows of windows of one image, or whole images; see tile.h. */
typedef struct sdbr_tile {
    const sdbr_pooling *p;
    int64_t most_images, most_windows; /* what a tile has room for: images, rows of windows */
    int64_t images, windows;           /* what it has */
    int64_t rows, pitch, phase;        /* rows of a phase per image, elements of a row, elements of a phase */
    int64_t count;                     /* places from the first window to the last */
    int64_t run;                       /* rows of windows that follow each other without a gap */
    int64_t places, halo;              /* places of a window; what the last row of windows adds to `rows` */
    int64_t *offset;                   /* of each place of a window */
} sdbr_tile;

enum { SDBR_TILE_PIXELS = 4096, SDBR_TILE_WINDOWS = 1024, SDBR_TILE_PLACES = 64 };

/* Whether tiles serve these windows, and how large they are at most. */
SDBR_INLINE int sdbr_tile_of(const sdbr_pooling *p, sdbr_tile *t, int64_t *offset) {
    const int64_t phases = p->s[1] * p->s[2], places = p->k[1] * p->k[2];
    const int64_t pitch = p->y[2] + (p->k[2] - 1) / p->s[2], halo = (p->k[1] - 1) / p->s[1];
    int64_t room = phases > 16 ? 0 : SDBR_TILE_PIXELS / phases;
    room = room < SDBR_TILE_WINDOWS ? room : SDBR_TILE_WINDOWS;
    if (p->x[0] != 1 || p->y[0] != 1 || p->k[0] != 1 || p->p[0] != 0 || places > SDBR_TILE_PLACES ||
        p->windows == 0 || (halo + 1) * pitch > room)
        return 0;
    const int64_t rows = room / pitch - halo, image = (p->y[1] + halo) * pitch;
    const sdbr_tile tile = {.p = p,
                            .most_images = image <= room ? room / image : 1,
                            .most_windows = rows < p->y[1] ? rows : p->y[1],
                            .pitch = pitch,
                            .places = places,
                            .halo = halo,
                            .offset = offset};
    *t = tile;
    return 1;
}

/* Only where the pixels of a phase lie side by side, or the images are too small for rows of them. */
SDBR_INLINE int sdbr_tiles_pay_backward(const sdbr_pooling *p) { return p->pairs || p->s[1] * p->s[2] == 1; }

/* The tile as it is where no more than this is left. */
SDBR_INLINE void sdbr_tile_ends(sdbr_tile *t, int64_t images, int64_t windows) {
    const sdbr_pooling *p = t->p;
    t->images = images < t->most_images ? images : t->most_images;
    t->windows = windows < t->most_windows ? windows : t->most_windows;
    t->rows = t->windows + t->halo;
    t->phase = t->images * t->rows * t->pitch;
    t->count = ((t->images - 1) * t->rows + t->windows - 1) * t->pitch + p->y[2];
    t->run = t->halo == 0 && t->pitch == p->y[2] ? t->windows : 1;
    for (int64_t j = 0; j < p->k[1]; j++)
        for (int64_t k = 0; k < p->k[2]; k++)
            t->offset[j * p->k[2] + k] = (j % p->s[1] * p->s[2] + k % p->s[2]) * t->phase +
                                         j / p->s[1] * t->pitch + k / p->s[2];
}

#endif
