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

/* gx = gy s^-beta - 2 alpha beta x (sum of y gy / s of the channels around), s of `kept`; y is x s^-beta
 * where there is none. A window of powers and summands goes along the channels; gx may be gy. */
SDBR_INLINE int FN(local_response_slope)(const sdbr_op *op, const T *kept, const T *x, const T *y, const T *gy,
                                         T *gx) {
    const int64_t outer = op->ints[0], c = op->ints[1], inner = op->ints[2], half = op->ints[3];
    const T numbers[3] = {(T)op->floats[0], (T)op->floats[1], (T)op->floats[2]};
    const T factor = (T)(2 * op->floats[1] * op->floats[2]);
    T powers[RESPONSE_ROOM], summands[RESPONSE_ROOM], s[RESPONSE_WIDTH], sum[RESPONSE_WIDTH];
    const int64_t ring = 2 * half + 1, room = RESPONSE_ROOM / ring;
    const int64_t most = room < RESPONSE_WIDTH ? room : RESPONSE_WIDTH;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < inner; j += most) {
            const int64_t width = inner - j < most ? inner - j : most, at = o * c * inner + j;
            for (int64_t i = 0; i < c + half; i++) {
                if (i < c) {
                    const int64_t row = at + i * inner;
                    T *p = powers + i % ring * most, *q = summands + i % ring * most;
                    FN(response)(kept + at, c, inner, width, i, half, numbers, s, p);
                    SDBR_IVDEP
                    for (int64_t t = 0; t < width; t++)
                        q[t] = (y ? y[row + t] : x[row + t] * p[t]) * gy[row + t] / s[t];
                }
                const int64_t k = i - half, row = at + k * inner;
                if (k < 0)
                    continue;
                const int64_t first = k > half ? k - half : 0, last = i < c ? i : c - 1;
                for (int64_t t = 0; t < width; t++)
                    sum[t] = 0;
                for (int64_t m = first; m <= last; m++)
                    FN(add_to)(sum, summands + m % ring * most, width);
                const T *p = powers + k % ring * most;
                SDBR_IVDEP
                for (int64_t t = 0; t < width; t++)
                    gx[row + t] = gy[row + t] * p[t] - factor * x[row + t] * sum[t];
            }
        }
    return SDBR_OK;
}

static int FN(local_response_grad)(const sdbr_op *op) {
    const T *x = (const T *)op->operands[0];
    return FN(local_response_slope)(op, x, x, NULL, (const T *)op->operands[1], (T *)op->operands[2]);
}

/* The caller has had input and output in hand since. */
static int FN(local_response_kept_grad)(const sdbr_op *op) {
    char *const *at = op->operands;
    return FN(local_response_slope)(op, (const T *)at[0], (const T *)at[1], (const T *)at[2], (const T *)at[3],
                                    (T *)at[4]);
}
