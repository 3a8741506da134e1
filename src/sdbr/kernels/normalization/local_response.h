/* Local response normalization of x[outer, c, inner] by dtype: across `half` channels to either
 * side. Columns are taken in blocks; sums are taken from left to right. */

/* Room for the window of a block: it is as wide as the number of channels in the window allows. */
#define RESPONSE_ROOM 2560
#define RESPONSE_WIDTH 256

/* s = k + alpha (sum of x^2 of the channels around `at`), p = s ^ -beta. */
SDBR_INLINE void FN(response)(const T *x, int64_t c, int64_t inner, int64_t width, int64_t at, int64_t half,
                              const T *numbers, T *s, T *p) {
    const int64_t first = at > half ? at - half : 0, last = at + half < c ? at + half : c - 1;
    const T k = numbers[0], alpha = numbers[1], beta = numbers[2];
    for (int64_t j = 0; j < width; j++)
        s[j] = 0;
    for (int64_t i = first; i <= last; i++) {
        const T *row = x + i * inner;
        SDBR_IVDEP
        for (int64_t j = 0; j < width; j++)
            s[j] += row[j] * row[j];
    }
    if (beta == (T)0.75) {
        SDBR_IVDEP
        for (int64_t j = 0; j < width; j++) {
            const T root = SQRT(s[j] = k + alpha * s[j]);
            p[j] = (T)1 / (root * SQRT(root));
        }
        return;
    }
    if (beta == (T)(int64_t)beta) { /* a whole power has a value for negative numbers, too */
        for (int64_t j = 0; j < width; j++)
            p[j] = FN(sdbr_pow)(s[j] = k + alpha * s[j], -beta);
        return;
    }
    SDBR_IVDEP
    for (int64_t j = 0; j < width; j++) {
        s[j] = k + alpha * s[j];
        p[j] = FN(sdbr_exp)(-beta * FN(sdbr_log)(s[j]));
    }
}

static int FN(local_response)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], c = op->ints[1], inner = op->ints[2], half = op->ints[3];
    const T numbers[3] = {(T)op->floats[0], (T)op->floats[1], (T)op->floats[2]};
    T s[RESPONSE_WIDTH], p[RESPONSE_WIDTH];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < inner; j += RESPONSE_WIDTH) {
            const int64_t width = inner - j < RESPONSE_WIDTH ? inner - j : RESPONSE_WIDTH, at = o * c * inner + j;
            const T *x = (const T *)op->operands[0] + at;
            T *y = (T *)op->operands[1] + at;
            for (int64_t i = 0; i < c; i++) {
                FN(response)(x, c, inner, width, i, half, numbers, s, p);
                SDBR_IVDEP
                for (int64_t t = 0; t < width; t++)
                    y[i * inner + t] = x[i * inner + t] * p[t];
            }
        }
    return SDBR_OK;
}

static void FN(add_to)(T *restrict sum, const T *restrict x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        sum[i] += x[i];
}

/* gx = gy s^-beta - 2 alpha beta x (sum of x gy s^-(beta + 1) of the channels around). A window of
 * powers and summands goes along the channels; gx may be gy. */
static int FN(local_response_grad)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], c = op->ints[1], inner = op->ints[2], half = op->ints[3];
    const T numbers[3] = {(T)op->floats[0], (T)op->floats[1], (T)op->floats[2]};
    const T factor = (T)(2 * op->floats[1] * op->floats[2]);
    T powers[RESPONSE_ROOM], summands[RESPONSE_ROOM], s[RESPONSE_WIDTH], sum[RESPONSE_WIDTH];
    const int64_t ring = 2 * half + 1, room = RESPONSE_ROOM / ring;
    const int64_t most = room < RESPONSE_WIDTH ? room : RESPONSE_WIDTH;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < inner; j += most) {
            const int64_t width = inner - j < most ? inner - j : most, at = o * c * inner + j;
            const T *x = (const T *)op->operands[0] + at, *gy = (const T *)op->operands[1] + at;
            T *gx = (T *)op->operands[2] + at;
            for (int64_t i = 0; i < c + half; i++) {
                if (i < c) {
                    T *p = powers + i % ring * most, *q = summands + i % ring * most;
                    const T *xs = x + i * inner, *gys = gy + i * inner;
                    FN(response)(x, c, inner, width, i, half, numbers, s, p);
                    SDBR_IVDEP
                    for (int64_t t = 0; t < width; t++)
                        q[t] = xs[t] * p[t] * gys[t] / s[t];
                }
                const int64_t k = i - half;
                if (k < 0)
                    continue;
                const int64_t first = k > half ? k - half : 0, last = i < c ? i : c - 1;
                for (int64_t t = 0; t < width; t++)
                    sum[t] = 0;
                for (int64_t m = first; m <= last; m++)
                    FN(add_to)(sum, summands + m % ring * most, width);
                const T *xs = x + k * inner, *gys = gy + k * inner, *p = powers + k % ring * most;
                T *to = gx + k * inner;
                SDBR_IVDEP
                for (int64_t t = 0; t < width; t++)
                    to[t] = gys[t] * p[t] - factor * xs[t] * sum[t];
            }
        }
    return SDBR_OK;
}
