/* Convolutions of which every group has one channel of x, for one dtype: sums over shifted planes. */

#define V FN(patch_vector)
#define LANES (PANEL / 2)
/* Vectors, or images, until a long sum begins anew: what is added to a small one is rounded by little. */
#define STRETCH 64
/* Channels whose sums are kept together: their planes lie side by side. */
#define CHANNELS 16
/* Vectors whose sums are made together. */
#define AT_ONCE 4

/* plane[j * step + shift] = from[j] along each axis, zeros elsewhere and in LANES * stride elements behind it. */
static void FN(pad_plane)(const T *from, const int64_t *size, const int64_t *step, const int64_t *shift, T *plane,
                          const int64_t *extent, int64_t behind) {
    memset(plane, 0, (size_t)(sdbr_volume(extent) + behind) * sizeof(T));
    for (int64_t z = 0; z < size[0]; ++z)
        for (int64_t y = 0; y < size[1]; ++y) {
            const int64_t row = z * step[0] + shift[0], line = y * step[1] + shift[1];
            if (row < 0 || row >= extent[0] || line < 0 || line >= extent[1])
                continue;
            T *to = plane + (row * extent[1] + line) * extent[2];
            const T *p = from + (z * size[1] + y) * size[2];
            const int64_t low = FN(ceiling)(-shift[2], step[2]);
            const int64_t room = FN(ceiling)(extent[2] - shift[2], step[2]);
            const int64_t high = room < size[2] ? room : size[2];
            if (step[2] == 1 && high > low)
                memcpy(to + low + shift[2], p + low, (size_t)(high - low) * sizeof(T));
            else
                for (int64_t x = low; x < high; ++x)
                    to[x * step[2] + shift[2]] = p[x];
        }
}

/* The elements of padded planes that one pixel reads, and their weights. */
typedef struct FN(taps) {
    int64_t count;
    const int64_t *places;
    const T *weights;
} FN(taps);

/* out = act(sum of weights[t] * plane[stride * pixel + places[t]] + bias) */
SDBR_INLINE void FN(slide_by)(const T *plane, const int64_t *extent, const int64_t *stride, const int64_t along,
                              const FN(taps) *taps, T *out, const int64_t *size, T bias, int relu) {
    const int64_t chunks = (size[2] + LANES - 1) / LANES, all = size[0] * size[1] * chunks;
    for (int64_t i = 0; i < all; i += AT_ONCE) {
        const T *from[AT_ONCE];
        T *to[AT_ONCE];
        int64_t length[AT_ONCE];
        V sum[AT_ONCE];
        const int n = all - i < AT_ONCE ? (int)(all - i) : AT_ONCE;
        for (int k = 0; k < AT_ONCE; ++k) {
            const int64_t at = i + (k < n ? k : 0), row = at / chunks, x = at % chunks * LANES;
            from[k] = plane +
                      (row / size[1] * stride[0] * extent[1] + row % size[1] * stride[1]) * extent[2] + x * along;
            to[k] = out + row * size[2] + x;
            length[k] = size[2] - x;
            sum[k] = (V){0} + bias;
        }
        for (int64_t t = 0; t < taps->count; ++t)
            SDBR_UNROLL for (int k = 0; k < AT_ONCE; ++k)
                sum[k] += taps->weights[t] * FN(load_every)(from[k] + taps->places[t], along);
        for (int k = 0; k < n; ++k) {
            if (relu) /* a NaN stays one */
                sum[k] = (V)((FN(patch_bits))sum[k] & ~(FN(patch_bits))(sum[k] < (V){0}));
            if (length[k] >= LANES)
                *(V *)to[k] = sum[k];
            else
                memcpy(to[k], &sum[k], (size_t)length[k] * sizeof(T));
        }
    }
}

static void FN(slide)(const T *plane, const int64_t *extent, const int64_t *stride, const FN(taps) *taps, T *out,
                      const int64_t *size, T bias, int relu) {
    if (stride[2] == 1)
        FN(slide_by)(plane, extent, stride, 1, taps, out, size, bias, relu);
    else if (stride[2] == 2)
        FN(slide_by)(plane, extent, stride, 2, taps, out, size, bias, relu);
    else
        FN(slide_by)(plane, extent, stride, 4, taps, out, size, bias, relu);
}

static void FN(share_depthwise)(const sdbr_op *op, int64_t part, int64_t parts) {
    const sdbr_conv *s = (const sdbr_conv *)op->ints;
    const T *x = (const T *)op->operands[0], *w = (const T *)op->operands[1];
    const T *bias = s->has_bias ? (const T *)op->operands[2] : NULL;
    T *y = (T *)op->operands[2 + s->has_bias], *plane = (T *)op->operands[3 + s->has_bias] + part * s->slot;
    const int64_t one[3] = {1, 1, 1}, count = sdbr_volume(s->kernel), pixels = sdbr_volume(s->out);
    const int64_t behind = LANES * s->stride[2], each = s->o / s->c;
    int64_t extent[3], places[SDBR_CONV_ROWS];
    for (int i = 0; i < 3; ++i)
        extent[i] = (s->out[i] - 1) * s->stride[i] + (s->kernel[i] - 1) * s->dilate[i] + 1;
    for (int64_t t = 0; t < count; ++t)
        places[t] = (t / (s->kernel[1] * s->kernel[2]) * s->dilate[0] * extent[1] +
                     t / s->kernel[2] % s->kernel[1] * s->dilate[1]) * extent[2] + t % s->kernel[2] * s->dilate[2];
    for (int64_t i = sdbr_begin(s->n * s->c, 1, part, parts); i < sdbr_begin(s->n * s->c, 1, part + 1, parts); ++i) {
        FN(pad_plane)(x + i * sdbr_volume(s->in), s->in, one, s->pad, plane, extent, behind);
        for (int64_t k = 0; k < each; ++k) {
            const int64_t o = i % s->c * each + k;
            const FN(taps) taps = {count, places, w + o * count};
            FN(slide)(plane, extent, s->stride, &taps, y + (i * each + k) * pixels, s->out,
                      bias == NULL ? (T)0 : bias[o], (int)s->activation);
        }
    }
}

static int FN(convolution_depthwise)(const sdbr_op *op) {
    sdbr_share(op, ((const sdbr_conv *)op->ints)->shares, FN(share_depthwise));
    return SDBR_OK;
}

/* gy with zeros between its elements, padded, is read by the taps in opposite order. */
static void FN(share_grad_x_depthwise)(const sdbr_op *op, int64_t part, int64_t parts) {
    const sdbr_conv *s = (const sdbr_conv *)op->ints;
    const T *gy = (const T *)op->operands[0], *w = (const T *)op->operands[1];
    const T *bias = s->has_bias ? (const T *)op->operands[2] : NULL;
    T *gx = (T *)op->operands[2 + s->has_bias], *planes = (T *)op->operands[3 + s->has_bias] + part * s->slot;
    const int64_t one[3] = {1, 1, 1}, count = sdbr_volume(s->kernel), channel = sdbr_volume(s->in);
    const int64_t each = s->o / s->c;
    int64_t extent[3], shift[3], places[SDBR_CONV_ROWS];
    for (int i = 0; i < 3; ++i) {
        extent[i] = s->in[i] + (s->kernel[i] - 1) * s->dilate[i];
        shift[i] = (s->kernel[i] - 1) * s->dilate[i] - s->pad[i];
    }
    const int64_t plane = sdbr_volume(extent) + LANES;
    for (int64_t k = 0; k < each; ++k)
        for (int64_t i = 0; i < count; ++i) {
            const int64_t t = count - 1 - i;
            places[k * count + i] = k * plane + (t / (s->kernel[1] * s->kernel[2]) * s->dilate[0] * extent[1] +
                                                 t / s->kernel[2] % s->kernel[1] * s->dilate[1]) * extent[2] +
                                    t % s->kernel[2] * s->dilate[2];
        }
    for (int64_t i = sdbr_begin(s->n * s->c, 1, part, parts); i < sdbr_begin(s->n * s->c, 1, part + 1, parts); ++i) {
        const int64_t c = i % s->c;
        const FN(taps) taps = {each * count, places, w + c * each * count};
        for (int64_t k = 0; k < each; ++k)
            FN(pad_plane)(gy + (i * each + k) * sdbr_volume(s->out), s->out, s->stride, shift, planes + k * plane,
                          extent, LANES);
        FN(slide)(planes, extent, one, &taps, gx + i * channel, s->in, bias == NULL ? (T)0 : bias[c],
                  (int)s->activation);
    }
}

static int FN(convolution_grad_x_depthwise)(const sdbr_op *op) {
    sdbr_share(op, ((const sdbr_conv *)op->ints)->shares, FN(share_grad_x_depthwise));
    FN(mend_not_finite)(op);
    return SDBR_OK;
}

/* The sum of gy * plane over some rows. Rows of gy are `chunks` vectors long here, with zeros behind them; `last` is
 * the mask of the lanes of the last one that are pixels. */
SDBR_INLINE T FN(plane_product)(const sdbr_conv *s, const T *gy, int64_t chunks, FN(patch_bits) last, int64_t row,
                                int64_t rows, const T *plane, const int64_t *extent, const int64_t along) {
    V sum[2] = {{0}, {0}};
    T total = 0;
    gy += row * chunks * LANES;
    for (int64_t z = 0; z < s->out[0]; ++z, gy += (s->out[1] - rows) * chunks * LANES)
        for (int64_t y = row; y < row + rows; ++y) {
            const T *from = plane + (z * s->stride[0] * extent[1] + y * s->stride[1]) * extent[2];
            for (int64_t i = 1; i < chunks; ++i, gy += LANES, from += LANES * along)
                sum[1] += *(const V *)gy * FN(load_every)(from, along);
            sum[0] += *(const V *)gy * (V)((FN(patch_bits))FN(load_every)(from, along) & last);
            gy += LANES;
        }
    sum[0] += sum[1];
    for (int k = 0; k < LANES; ++k)
        total += sum[0][k];
    return total;
}

/* sum[t] += the sum of gy * plane at tap t over some rows. */
SDBR_INLINE void FN(add_taps)(const sdbr_conv *s, const T *gy, int64_t chunks, FN(patch_bits) last, int64_t row,
                              int64_t rows, const T *plane, const int64_t *extent, T *sum) {
    const int64_t count = sdbr_volume(s->kernel), along = s->stride[2];
    for (int64_t t = 0; t < count; ++t) {
        const T *from = plane + (t / (s->kernel[1] * s->kernel[2]) * s->dilate[0] * extent[1] +
                                 t / s->kernel[2] % s->kernel[1] * s->dilate[1]) * extent[2] +
                        t % s->kernel[2] * s->dilate[2];
        if (along == 1)
            sum[t] += FN(plane_product)(s, gy, chunks, last, row, rows, from, extent, 1);
        else if (along == 2)
            sum[t] += FN(plane_product)(s, gy, chunks, last, row, rows, from, extent, 2);
        else
            sum[t] += FN(plane_product)(s, gy, chunks, last, row, rows, from, extent, 4);
    }
}

static void FN(share_grad_w_depthwise)(const sdbr_op *op, int64_t part, int64_t parts) {
    const sdbr_conv *s = (const sdbr_conv *)op->ints;
    const T *x = (const T *)op->operands[0], *gy = (const T *)op->operands[1];
    T *gw = (T *)op->operands[2], *plane = (T *)op->operands[3] + part * s->slot;
    const int64_t one[3] = {1, 1, 1}, none[3] = {0}, count = sdbr_volume(s->kernel), pixels = sdbr_volume(s->out);
    const int64_t each = s->o / s->c, along = s->stride[2], chunks = (s->out[2] + LANES - 1) / LANES;
    const int64_t rows[3] = {s->out[0], s->out[1], chunks * LANES}, each_row = s->out[0] * chunks;
    /* Rows that are added at once: what is added to a small sum is rounded by little. */
    const int64_t band = each_row < STRETCH ? STRETCH / each_row : 1;
    int64_t extent[3];
    INT mask[LANES];
    for (int k = 0; k < LANES; ++k)
        mask[k] = (chunks - 1) * LANES + k < s->out[2] ? -1 : 0;
    const FN(patch_bits) last = *(const FN(patch_bits) *)mask;
    for (int i = 0; i < 3; ++i)
        extent[i] = (s->out[i] - 1) * s->stride[i] + (s->kernel[i] - 1) * s->dilate[i] + 1;
    T *given = plane + sdbr_volume(extent) + LANES * along;
    const int64_t first = sdbr_begin(s->c, 1, part, parts), end = sdbr_begin(s->c, 1, part + 1, parts);
    if (!s->accumulate)
        memset(gw + first * each * count, 0, (size_t)((end - first) * each * count) * sizeof(T));
    for (int64_t i = first; i < end; i += CHANNELS)
        for (int64_t begin = 0; begin < s->n; begin += STRETCH) {
            T sums[CHANNELS * SDBR_CONV_ROWS] = {0}; /* of some images, for the same reason */
            const int64_t stop = s->n - begin < STRETCH ? s->n : begin + STRETCH;
            const int64_t some = end - i < CHANNELS ? end - i : CHANNELS;
            for (int64_t n = begin; n < stop; ++n) {
                T *sum = sums;
                for (int64_t c = i; c < i + some; ++c) {
                    FN(pad_plane)(x + (n * s->c + c) * sdbr_volume(s->in), s->in, one, s->pad, plane, extent,
                                  LANES * along);
                    for (int64_t o = c * each; o < (c + 1) * each; ++o, sum += count) {
                        FN(pad_plane)(gy + (n * s->o + o) * pixels, s->out, one, none, given, rows, 0);
                        for (int64_t row = 0; row < s->out[1]; row += band)
                            FN(add_taps)(s, given, chunks, last, row, s->out[1] - row < band ? s->out[1] - row : band,
                                         plane, extent, sum);
                    }
                }
            }
            for (int64_t t = 0; t < some * each * count; ++t)
                gw[i * each * count + t] += sums[t];
        }
}

static int FN(convolution_grad_w_depthwise)(const sdbr_op *op) {
    sdbr_share(op, ((const sdbr_conv *)op->ints)->shares, FN(share_grad_w_depthwise));
    return SDBR_OK;
}

#undef V
#undef LANES
#undef AT_ONCE
#undef STRETCH
#undef CHANNELS
