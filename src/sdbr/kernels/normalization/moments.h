/* Sums over the rows of planes, by dtype: `rows` rows of `width` elements, `step` apart, with room
 * for a vector in each plane. What is left of a row behind the last whole vector is read as the
 * last vector of the row, without the elements that were taken before. Sums are exact to a few
 * roundings whatever the mean is: they are taken relative to it, in pieces that are put together
 * in double, always in the same order. */

/* Elements of a piece. */
#define PIECE 4096

/* Ones in the last `count` lanes. */
SDBR_INLINE FN(ivec) FN(last_lanes)(int64_t count) {
    INT lanes[LANES];
    FN(ivec) mask;
    for (int64_t i = 0; i < LANES; i++)
        lanes[i] = i >= LANES - count ? (INT)-1 : 0;
    memcpy(&mask, lanes, sizeof mask);
    return mask;
}

SDBR_INLINE FN(vec) FN(only)(FN(vec) v, FN(ivec) mask) { return (FN(vec))((FN(ivec))v & mask); }

/* gy where y > 0, times zero elsewhere: NaN and infinities come through. */
SDBR_INLINE FN(vec) FN(passed)(FN(vec) gy, FN(vec) y) {
    return gy * FN(only)(FN(splat)(1), (FN(ivec))(y > 0));
}

/* Steps of four vectors until sums begin anew: what is added to a small sum is rounded by little. */
#define STRETCH 32

/* How many steps there have been since sums last began anew; at STRETCH, `all` takes them over. */
SDBR_INLINE int64_t FN(steps_since)(int64_t steps, FN(vec) *s, FN(vec) *q, FN(vec) *all) {
    if (steps < STRETCH)
        return steps;
    all[0] += (s[0] + s[1]) + (s[2] + s[3]);
    all[1] += (q[0] + q[1]) + (q[2] + q[3]);
    for (int u = 0; u < 4; u++)
        s[u] = q[u] = FN(splat)(0);
    return 0;
}

/* How many steps of a row from i on come before that. */
SDBR_INLINE int64_t FN(some_steps)(int64_t width, int64_t i, int64_t steps) {
    const int64_t whole = (width - i) / (4 * LANES);
    return whole < STRETCH - steps ? whole : STRETCH - steps;
}

/* sums[0] = sum of x - k, sums[1] = sum of (x - k)^2. */
static void FN(shifted_sums)(const T *x, int64_t rows, int64_t step, int64_t width, T k, double *sums) {
    const FN(vec) from = FN(splat)(k), zero = FN(splat)(0);
    const int64_t rest = width % LANES;
    const FN(ivec) last = FN(last_lanes)(rest);
    FN(vec) s[4] = {zero, zero, zero, zero}, q[4] = {zero, zero, zero, zero}, all[2] = {zero, zero};
    int64_t steps = 0;
    for (int64_t r = 0; r < rows; r++) {
        const T *row = x + r * step;
        int64_t i = 0;
        while (i + 4 * LANES <= width) {
            const int64_t some = FN(some_steps)(width, i, steps), end = i + some * 4 * LANES;
            for (; i < end; i += 4 * LANES)
                for (int u = 0; u < 4; u++) {
                    const FN(vec) d = FN(load)(row + i + u * LANES) - from;
                    s[u] += d;
                    q[u] += d * d;
                }
            steps = FN(steps_since)(steps + some, s, q, all);
        }
        for (int u = 0; u < 3; u++)
            if (i + LANES <= width) {
                const FN(vec) d = FN(load)(row + i) - from;
                s[u] += d;
                q[u] += d * d;
                i += LANES;
            }
        if (rest) {
            const FN(vec) d = FN(only)(FN(load)(row + width - LANES) - from, last);
            s[3] += d;
            q[3] += d * d;
        }
        steps = FN(steps_since)(steps + 1, s, q, all);
    }
    FN(steps_since)(STRETCH, s, q, all);
    sums[0] = (double)FN(sum_lanes)(all[0]);
    sums[1] = (double)FN(sum_lanes)(all[1]);
}

/* Where a gradient comes through: everywhere, where y > 0, or where (x - mean) scale + beta > 0: the
 * same as y, computed as in the forward. */
enum { FN(THROUGH_ALL), FN(THROUGH_Y), FN(THROUGH_X) };

typedef struct FN(relu) {
    const T *y;
    T scale, beta;
} FN(relu);

/* g at x + at, from d = x - mean. */
SDBR_INLINE FN(vec) FN(through)(int way, const FN(relu) *relu, const T *gy, int64_t at, FN(vec) d) {
    const FN(vec) g = FN(load)(gy + at);
    if (way == FN(THROUGH_ALL))
        return g;
    if (way == FN(THROUGH_Y))
        return FN(passed)(g, FN(load)(relu->y + at));
    return FN(passed)(g, d * FN(splat)(relu->scale) + FN(splat)(relu->beta));
}

/* sums[0] = sum of g, sums[1] = sum of g (x - k), with the g of `through`. */
SDBR_INLINE void FN(gradient_sums)(int way, const FN(relu) *relu, const T *x, const T *gy, int64_t from, int64_t rows,
                                   int64_t step, int64_t width, T k, double *sums) {
    const FN(vec) mean = FN(splat)(k), zero = FN(splat)(0);
    const int64_t rest = width % LANES;
    const FN(ivec) last = FN(last_lanes)(rest);
    FN(vec) s[4] = {zero, zero, zero, zero}, q[4] = {zero, zero, zero, zero}, all[2] = {zero, zero};
    int64_t steps = 0;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t at = from + r * step;
        int64_t i = 0;
        while (i + 4 * LANES <= width) {
            const int64_t some = FN(some_steps)(width, i, steps), end = i + some * 4 * LANES;
            for (; i < end; i += 4 * LANES)
                for (int u = 0; u < 4; u++) {
                    const FN(vec) d = FN(load)(x + at + i + u * LANES) - mean;
                    const FN(vec) g = FN(through)(way, relu, gy, at + i + u * LANES, d);
                    s[u] += g;
                    q[u] += g * d;
                }
            steps = FN(steps_since)(steps + some, s, q, all);
        }
        for (int u = 0; u < 3; u++)
            if (i + LANES <= width) {
                const FN(vec) d = FN(load)(x + at + i) - mean, g = FN(through)(way, relu, gy, at + i, d);
                s[u] += g;
                q[u] += g * d;
                i += LANES;
            }
        if (rest) {
            const FN(vec) d = FN(load)(x + at + width - LANES) - mean;
            const FN(vec) g = FN(through)(way, relu, gy, at + width - LANES, d);
            s[3] += FN(only)(g, last);
            q[3] += FN(only)(g * d, last);
        }
        steps = FN(steps_since)(steps + 1, s, q, all);
    }
    FN(steps_since)(STRETCH, s, q, all);
    sums[0] = (double)FN(sum_lanes)(all[0]);
    sums[1] = (double)FN(sum_lanes)(all[1]);
}

#define DEFINE_SUMS(name, way) \
    static void FN(name)(const FN(relu) *relu, const T *x, const T *gy, int64_t from, int64_t rows, int64_t step, \
                         int64_t width, T k, double *sums) { \
        FN(gradient_sums)(way, relu, x, gy, from, rows, step, width, k, sums); \
    }

DEFINE_SUMS(gradient_sums_all, FN(THROUGH_ALL))
DEFINE_SUMS(gradient_sums_y, FN(THROUGH_Y))
DEFINE_SUMS(gradient_sums_x, FN(THROUGH_X))

#undef DEFINE_SUMS

/* Mean and variance so far, and of how many elements. */
typedef struct FN(moments) {
    double count, mean, deviation; /* deviation: sum of squares of x - mean */
} FN(moments);

/* Add a piece of `count` elements with these sums relative to k. */
SDBR_INLINE void FN(add_piece)(FN(moments) *m, double count, T k, const double *sums) {
    const double shift = sums[0] / count, mean = (double)k + shift;
    const double total = m->count + count, apart = mean - m->mean;
    m->deviation += sums[1] - sums[0] * shift + apart * apart * (m->count * count / total);
    m->mean = m->count == 0 ? mean : m->mean + apart * (count / total);
    m->count = total;
}

/* The moments where sums are no numbers: there is NaN or infinity, or (x - k)^2 is too large. Which
 * of them, the plain mean tells. */
static void FN(odd_moments)(const T *x, int64_t rows, int64_t step, int64_t width, T *mean, T *variance) {
    double sum = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < width; j++)
            sum += (double)x[r * step + j];
    *mean = (T)(sum / (double)(rows * width));
    *variance = *mean - *mean == 0 ? (T)INFINITY : (T)NAN;
}

/* Mean and variance of all the rows. Each piece is taken relative to the mean of those before it,
 * the first one to its own. */
static void FN(plane_moments)(const T *x, int64_t rows, int64_t step, int64_t width, T *mean, T *variance) {
    const int64_t group = width < PIECE ? PIECE / width : 1;
    const int64_t part = width < PIECE + LANES ? width : PIECE;
    FN(moments) m = {0, 0, 0};
    double sums[2];
    for (int64_t r = 0; r < rows; r += group) {
        const int64_t n = rows - r < group ? rows - r : group;
        for (int64_t j = 0; j < width;) {
            int64_t w = width - j < part + LANES ? width - j : part; /* no piece narrower than a vector */
            const T *at = x + r * step + j;
            const double count = (double)(n * w);
            T k = (T)m.mean;
            if (m.count == 0) {
                FN(shifted_sums)(at, n, step, w, at[0], sums);
                k = (T)((double)at[0] + sums[0] / count);
            }
            FN(shifted_sums)(at, n, step, w, k, sums);
            FN(add_piece)(&m, count, k, sums);
            j += w;
        }
    }
    if (!(m.deviation < (double)INFINITY)) {
        FN(odd_moments)(x, rows, step, width, mean, variance);
        return;
    }
    *mean = (T)m.mean;
    *variance = (T)(m.deviation < 0 ? 0 : m.deviation / m.count);
}

/* The sums of all the rows of a gradient; see gradient_sums. */
static void FN(plane_gradient)(int way, const FN(relu) *relu, const T *x, const T *gy, int64_t from, int64_t rows,
                               int64_t step, int64_t width, T mean, double *total) {
    const int64_t group = width < PIECE ? PIECE / width : 1;
    const int64_t part = width < PIECE + LANES ? width : PIECE;
    double sums[2];
    total[0] = total[1] = 0;
    for (int64_t r = 0; r < rows; r += group) {
        const int64_t n = rows - r < group ? rows - r : group;
        for (int64_t j = 0; j < width;) {
            const int64_t w = width - j < part + LANES ? width - j : part, at = from + r * step + j;
            if (way == FN(THROUGH_ALL))
                FN(gradient_sums_all)(relu, x, gy, at, n, step, w, mean, sums);
            else if (way == FN(THROUGH_Y))
                FN(gradient_sums_y)(relu, x, gy, at, n, step, w, mean, sums);
            else
                FN(gradient_sums_x)(relu, x, gy, at, n, step, w, mean, sums);
            total[0] += sums[0];
            total[1] += sums[1];
            j += w;
        }
    }
}
