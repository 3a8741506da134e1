/* Images of another size by linear interpolation, by dtype: x[n, h, w] to y[n, out_h, out_w].
 * ints: [n, h, w, out_h, out_w, mode]; C-contiguous. */

/* Columns of the result whose places are worked out at a time. */
#define RESIZE_BLOCK 256

/* The two neighbours of an element of the result along one axis, and the share of the second. */
typedef struct FN(neighbours) {
    int64_t first, second;
    T share;
} FN(neighbours);

SDBR_INLINE FN(neighbours) FN(neighbours_of)(int64_t i, int64_t out, int64_t n, int64_t mode) {
    const double at = sdbr_resized_place(i, out, n, mode), whole = floor(at);
    FN(neighbours) r = {(int64_t)whole, (int64_t)whole + 1, (T)(at - whole)};
    r.second = r.second < n ? r.second : n - 1;
    return r;
}

/* operands: x, y. */
static int FN(resize)(const sdbr_op *op) {
    const int64_t n = op->ints[0], h = op->ints[1], w = op->ints[2], out_h = op->ints[3], out_w = op->ints[4];
    const T *x = (const T *)op->operands[0];
    T *y = (T *)op->operands[1];
    FN(neighbours) u[RESIZE_BLOCK];
    for (int64_t first = 0; first < out_w; first += RESIZE_BLOCK) {
        const int64_t width = out_w - first < RESIZE_BLOCK ? out_w - first : RESIZE_BLOCK;
        for (int64_t c = 0; c < width; c++)
            u[c] = FN(neighbours_of)(first + c, out_w, w, op->ints[5]);
        for (int64_t image = 0; image < n; image++)
            for (int64_t r = 0; r < out_h; r++) {
                const FN(neighbours) v = FN(neighbours_of)(r, out_h, h, op->ints[5]);
                const T *above = x + (image * h + v.first) * w, *below = x + (image * h + v.second) * w;
                const T upper = 1 - v.share, lower = v.share;
                T *row = y + (image * out_h + r) * out_w + first;
                for (int64_t c = 0; c < width; c++) {
                    const T left = 1 - u[c].share, right = u[c].share;
                    row[c] = upper * (left * above[u[c].first] + right * above[u[c].second]) +
                             lower * (left * below[u[c].first] + right * below[u[c].second]);
                }
            }
    }
    return SDBR_OK;
}

/* operands: gy, gx. */
static int FN(resize_grad)(const sdbr_op *op) {
    const int64_t n = op->ints[0], h = op->ints[1], w = op->ints[2], out_h = op->ints[3], out_w = op->ints[4];
    const T *gy = (const T *)op->operands[0];
    T *gx = (T *)op->operands[1];
    FN(neighbours) u[RESIZE_BLOCK];
    memset(gx, 0, (size_t)(n * h * w) * sizeof(T));
    for (int64_t first = 0; first < out_w; first += RESIZE_BLOCK) {
        const int64_t width = out_w - first < RESIZE_BLOCK ? out_w - first : RESIZE_BLOCK;
        for (int64_t c = 0; c < width; c++)
            u[c] = FN(neighbours_of)(first + c, out_w, w, op->ints[5]);
        for (int64_t image = 0; image < n; image++)
            for (int64_t r = 0; r < out_h; r++) {
                const FN(neighbours) v = FN(neighbours_of)(r, out_h, h, op->ints[5]);
                T *above = gx + (image * h + v.first) * w, *below = gx + (image * h + v.second) * w;
                const T *row = gy + (image * out_h + r) * out_w + first;
                for (int64_t c = 0; c < width; c++) {
                    const T upper = row[c] * (1 - v.share), lower = row[c] * v.share;
                    const T left = 1 - u[c].share, right = u[c].share;
                    above[u[c].first] += upper * left;
                    above[u[c].second] += upper * right;
                    below[u[c].first] += lower * left;
                    below[u[c].second] += lower * right;
                }
            }
    }
    return SDBR_OK;
}

#undef RESIZE_BLOCK
