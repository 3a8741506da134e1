/* Sizes of a convolution y = x * w: what prepare/convolution.py lists, in its order.
 *
 * Three spatial axes; x[n, c, in...], w[o, c / groups, kernel...], y[n, o, out...]. A read outside of
 * x is a zero, a write outside of it is dropped. `depth` counts what is summed up for one pixel of
 * y, `pixels` are those of y over all images. */
#ifndef SDBR_CONV_SHAPE_H
#define SDBR_CONV_SHAPE_H

#include <stdint.h>

typedef struct sdbr_conv {
    int64_t n, c, o, groups;
    int64_t in[3], out[3], kernel[3], stride[3], pad[3], dilate[3];
    int64_t activation; /* of y, or of gx in convolution_grad_x */
    int64_t has_bias;
    int64_t accumulate;
    int64_t block; /* pixels that are worked on at once, a multiple of SDBR_CONV_WIDTH */
} sdbr_conv;

/* Widest panel, in elements: a block of pixels is a multiple of it at every SIMD level. */
#define SDBR_CONV_WIDTH 32
/* Rows of a panel, see gemm_setup.h. */
#define SDBR_CONV_DEPTH 256
/* Rows of the columns that convolution_grad_x makes at once. */
#define SDBR_CONV_ROWS 64

/* Neighbouring pixels of y in one row of one image. */
typedef struct sdbr_run {
    int64_t image;    /* which */
    int64_t pixel;    /* the first, within the image */
    int64_t start[3]; /* where its first patch begins in x, along each axis; may be outside */
    int32_t at;       /* its column in the panel */
    int32_t length;
} sdbr_run;

static inline int64_t sdbr_volume(const int64_t *size) { return size[0] * size[1] * size[2]; }

/* Cuts `count` pixels from `first` on into runs; returns how many. */
static inline __attribute__((unused)) int sdbr_runs(const sdbr_conv *s, int64_t first, int64_t count, sdbr_run *runs) {
    const int64_t width = s->out[2], pixels = sdbr_volume(s->out);
    int n = 0;
    for (int64_t at = 0; at < count; ++n) {
        const int64_t image = (first + at) / pixels, pixel = (first + at) % pixels;
        const int64_t row = pixel / width, x = pixel % width;
        const int64_t length = width - x < count - at ? width - x : count - at;
        runs[n].image = image;
        runs[n].pixel = pixel;
        runs[n].start[0] = row / s->out[1] * s->stride[0] - s->pad[0];
        runs[n].start[1] = row % s->out[1] * s->stride[1] - s->pad[1];
        runs[n].start[2] = x * s->stride[2] - s->pad[2];
        runs[n].at = (int32_t)at;
        runs[n].length = (int32_t)length;
        at += length;
    }
    return n;
}

#endif
