/* Patches of x as rows of a panel, for one dtype: what the product with w reads. */

/* Where the elements of a run come from, for one element of the kernel. */
typedef struct FN(source) {
    int64_t offset;      /* in the channel, of the first element; meaningless outside of [low, high) */
    int32_t at, low, high, end; /* columns of the panel: zeros in [at, low) and [high, end) */
} FN(source);

SDBR_INLINE int64_t FN(ceiling)(int64_t a, int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }

/* The sources of all runs for the element of the kernel with this index. */
static void FN(find_sources)(const sdbr_conv *s, const sdbr_run *runs, int n, int64_t tap, FN(source) *sources) {
    const int64_t channels = s->c * sdbr_volume(s->in), width = s->in[2], stride = s->stride[2];
    const int64_t dx = tap % s->kernel[2] * s->dilate[2];
    const int64_t dy = tap / s->kernel[2] % s->kernel[1] * s->dilate[1];
    const int64_t dz = tap / s->kernel[2] / s->kernel[1] * s->dilate[0];
    for (int i = 0; i < n; ++i) {
        const int64_t z = runs[i].start[0] + dz, y = runs[i].start[1] + dy, x = runs[i].start[2] + dx;
        int64_t low = 0, high = 0;
        if (z >= 0 && z < s->in[0] && y >= 0 && y < s->in[1]) {
            low = FN(ceiling)(-x, stride);
            high = FN(ceiling)(width - x, stride);
            low = low < runs[i].length ? low : runs[i].length;
            high = high < runs[i].length ? high : runs[i].length;
        }
        if (high < low)
            high = low;
        sources[i].offset = runs[i].image * channels + (z * s->in[1] + y) * width + x + low * stride;
        sources[i].at = runs[i].at;
        sources[i].low = (int32_t)(runs[i].at + low);
        sources[i].high = (int32_t)(runs[i].at + high);
        sources[i].end = runs[i].at + runs[i].length;
    }
}

/* panel[k - begin, column] for the rows [begin, end) of all patches; x is the first channel of the
 * group. Columns from the last run to `width` become zeros. */
static void FN(pack_patches)(const sdbr_conv *s, const T *x, const sdbr_run *runs, int n, int64_t begin, int64_t end,
                             T *panel, int64_t ld, int width) {
    FN(source) sources[SDBR_CONV_DEPTH];
    const int64_t taps = sdbr_volume(s->kernel), channel = sdbr_volume(s->in), stride = s->stride[2];
    const int count = n > 0 ? runs[n - 1].at + runs[n - 1].length : 0;
    for (int64_t tap = 0; tap < taps; ++tap) {
        int64_t k = (begin - tap + taps - 1) / taps * taps + tap;
        if (begin <= tap)
            k = tap;
        if (k >= end)
            continue;
        FN(find_sources)(s, runs, n, tap, sources);
        for (; k < end; k += taps) {
            const T *from = x + k / taps * channel;
            T *row = panel + (k - begin) * ld;
            for (int i = 0; i < n; ++i) {
                const FN(source) *r = sources + i;
                const T *p = from + r->offset;
                for (int j = r->at; j < r->low; ++j)
                    row[j] = 0;
                if (stride == 1)
                    for (int j = r->low; j < r->high; ++j)
                        row[j] = p[j - r->low];
                else
                    for (int j = r->low; j < r->high; ++j)
                        row[j] = p[(j - r->low) * stride];
                for (int j = r->high; j < r->end; ++j)
                    row[j] = 0;
            }
            for (int j = count; j < width; ++j)
                row[j] = 0;
        }
    }
}
