/* Where the elements of an image of another size come from. */
#ifndef SDBR_RESIZED_H
#define SDBR_RESIZED_H

#include <math.h>

#include "frame/template.h"

/* Between the centres of the outer pixels, between their outer borders, or from the pixel there. */
enum { SDBR_CORNERS, SDBR_BORDERS, SDBR_NEAREST };

/* The place along an axis of n pixels of pixel i of `out`. */
SDBR_INLINE double sdbr_resized_place(int64_t i, int64_t out, int64_t n, int64_t mode) {
    if (mode == SDBR_CORNERS) {
        if (i == 0 || out == 1)
            return 0;
        return i == out - 1 ? (double)(n - 1) : (double)i * ((double)(n - 1) / (double)(out - 1));
    }
    const double scale = (double)n / (double)out;
    if (mode == SDBR_NEAREST) {
        const double at = floor((double)i * scale);
        return at < (double)(n - 1) ? at : (double)(n - 1);
    }
    const double at = ((double)i + 0.5) * scale - 0.5;
    return at > 0 ? at : 0;
}

#endif
