/* Sizes of a convolution y = x * w: what backends/cpu/convolution.py lists, in its order.
 *
 * Three spatial axes; x[n, c, in...], w[o, c / groups, kernel...], y[n, o, out...]. A read outside of
 * x is a zero, a write outside of it is dropped. */
#ifndef SDBR_CONV_SHAPE_H
#define SDBR_CONV_SHAPE_H

#include <stdint.h>

#include "frame/sdbr_limits.h"

typedef struct sdbr_conv {
    int64_t n, c, o, groups;
    int64_t in[3], out[3], kernel[3], stride[3], pad[3], dilate[3];
    int64_t activation; /* of y, or of gx in convolution_grad_x */
    int64_t has_bias;
    int64_t accumulate;
    int64_t block;  /* pixels that are worked on at once, a multiple of 32 */
    int64_t shares; /* threads may take so many parts */
    int64_t slot;   /* elements of the scratch memory of each */
} sdbr_conv;

/* Where part `part` of `parts` begins among n things, at a multiple of `grain`. */
static inline __attribute__((unused)) int64_t sdbr_begin(int64_t n, int64_t grain, int64_t part, int64_t parts) {
    const int64_t begin = part * ((n + grain - 1) / grain) / parts * grain;
    return begin < n ? begin : n;
}

/* Rows of a tile: rows x 2 sums, 2 vectors and one number must fit the registers. */
#if SDBR_GEMM_BYTES == 64
#define SDBR_CONV_TILE 12
#else
#define SDBR_CONV_TILE SDBR_GEMM_ROWS
#endif

/* Pixels, and where the patch of each lies in x: from start + pixel * stride on, along each axis so
 * many elements (taps), dilate apart. */
typedef struct sdbr_grid {
    int64_t images, pixels[3];
    int64_t start[3], stride[3];
    int64_t taps[3], dilate[3];
    int64_t size[3];            /* of an image of x */
    int64_t x_image, x_channel; /* elements from one to the next */
    int64_t before, after;      /* elements of the whole array before x and from x on */
} sdbr_grid;

/* Neighbouring pixels in one row of one image. */
typedef struct sdbr_run {
    int64_t image;
    int64_t pixel[3];
    int64_t start[3]; /* where the first patch begins in x, along each axis; may be outside */
    int32_t at;       /* its column in the panel */
    int32_t length;
} sdbr_run;

static inline int64_t sdbr_volume(const int64_t *size) { return size[0] * size[1] * size[2]; }

/* Cuts `count` pixels from `first` on into runs; returns how many. */
static inline __attribute__((unused)) int sdbr_runs(const sdbr_grid *g, int64_t first, int64_t count, sdbr_run *runs) {
    const int64_t width = g->pixels[2];
    int64_t row = first / width, x = first % width;
    int64_t z = row / g->pixels[1], y = row % g->pixels[1];
    int64_t image = z / g->pixels[0];
    int n = 0;
    z %= g->pixels[0];
    for (int64_t at = 0; at < count; ++n) {
        const int64_t length = width - x < count - at ? width - x : count - at;
        const int64_t pixel[3] = {z, y, x};
        for (int i = 0; i < 3; ++i) {
            runs[n].pixel[i] = pixel[i];
            runs[n].start[i] = g->start[i] + pixel[i] * g->stride[i];
        }
        runs[n].image = image;
        runs[n].at = (int32_t)at;
        runs[n].length = (int32_t)length;
        at += length;
        x = 0;
        if (++y == g->pixels[1]) {
            y = 0;
            if (++z == g->pixels[0]) {
                z = 0;
                ++image;
            }
        }
    }
    return n;
}

/* The grid of y = x * w for one group; x begins with its first channel. */
static inline __attribute__((unused)) sdbr_grid sdbr_grid_of_y(const sdbr_conv *s, int64_t group) {
    const int64_t channel = sdbr_volume(s->in), first = group * (s->c / s->groups) * channel;
    sdbr_grid g = {.images = s->n, .x_image = s->c * channel, .x_channel = channel};
    g.before = first;
    g.after = s->n * s->c * channel - first;
    for (int i = 0; i < 3; ++i) {
        g.pixels[i] = s->out[i];
        g.start[i] = -s->pad[i];
        g.stride[i] = s->stride[i];
        g.taps[i] = s->kernel[i];
        g.dilate[i] = s->dilate[i];
        g.size[i] = s->in[i];
    }
    return g;
}

#endif
