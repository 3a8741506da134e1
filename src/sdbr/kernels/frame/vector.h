/* Sums, maxima and dot products of contiguous rows, by dtype. The vector type is an extension that
 * gcc and clang share; it is private to these functions. */

typedef T FN(vec) __attribute__((vector_size(SDBR_VECTOR_BYTES)));
typedef INT FN(ivec) __attribute__((vector_size(SDBR_VECTOR_BYTES)));

#define LANES ((int64_t)(SDBR_VECTOR_BYTES / sizeof(T)))

/* The larger lane by lane; the second where one is NaN. */
#if defined(__x86_64__) && SDBR_VECTOR_BYTES == 64
#define SDBR_MAX(a, b) \
    (SDBR_FLOATS ? (__m512)_mm512_max_ps((__m512)(a), (__m512)(b)) : (__m512)_mm512_max_pd((__m512d)(a), (__m512d)(b)))
#elif defined(__x86_64__) && SDBR_VECTOR_BYTES == 32
#define SDBR_MAX(a, b) \
    (SDBR_FLOATS ? (__m256)_mm256_max_ps((__m256)(a), (__m256)(b)) : (__m256)_mm256_max_pd((__m256d)(a), (__m256d)(b)))
#elif defined(__x86_64__)
#define SDBR_MAX(a, b) \
    (SDBR_FLOATS ? (__m128)_mm_max_ps((__m128)(a), (__m128)(b)) : (__m128)_mm_max_pd((__m128d)(a), (__m128d)(b)))
#endif
/* Elements that are summed lane by lane; longer rows are summed in halves, as NumPy does. */
#define SUM_BLOCK 2048

SDBR_INLINE FN(vec) FN(load)(const T *x) {
    FN(vec) v;
    memcpy(&v, x, sizeof v);
    return v;
}

SDBR_INLINE void FN(store)(T *x, FN(vec) v) { memcpy(x, &v, sizeof v); }

SDBR_INLINE FN(vec) FN(splat)(T x) {
    T lanes[LANES];
    for (int64_t i = 0; i < LANES; i++)
        lanes[i] = x;
    return FN(load)(lanes);
}

SDBR_INLINE T FN(sum_lanes)(FN(vec) v) {
    T lanes[LANES];
    FN(store)(lanes, v);
    for (int64_t w = LANES / 2; w > 0; w /= 2)
        for (int64_t i = 0; i < w; i++)
            lanes[i] += lanes[i + w];
    return lanes[0];
}

/* What a row is summed of. */
enum { FN(TERM_X), FN(TERM_XY), FN(TERM_SQUARE), FN(TERM_ABSOLUTE) };

SDBR_INLINE FN(vec) FN(vector_term)(int term, const T *x, const T *y) {
    FN(vec) a = FN(load)(x);
    if (term == FN(TERM_X))
        return a;
    FN(vec) b = FN(load)(y);
    if (term == FN(TERM_XY))
        return a * b;
    FN(vec) d = a - b;
    if (term == FN(TERM_SQUARE))
        return d * d;
    return (FN(vec))((FN(ivec))d & INT_MAX_OF_T); /* without the sign bit */
}

SDBR_INLINE T FN(scalar_term)(int term, T a, T b) {
    if (term == FN(TERM_X))
        return a;
    if (term == FN(TERM_XY))
        return a * b;
    return term == FN(TERM_SQUARE) ? (a - b) * (a - b) : FABS(a - b);
}

SDBR_INLINE T FN(sum_block)(int term, const T *x, const T *y, int64_t n) {
    int64_t i = 0;
    T sum = 0;
    if (n >= LANES) {
        FN(vec) a = FN(vector_term)(term, x, y), b = a - a, c = b, d = b;
        b = c = d = FN(splat)(0);
        for (i = LANES; i + 4 * LANES <= n; i += 4 * LANES) {
            a += FN(vector_term)(term, x + i, y + i);
            b += FN(vector_term)(term, x + i + LANES, y + i + LANES);
            c += FN(vector_term)(term, x + i + 2 * LANES, y + i + 2 * LANES);
            d += FN(vector_term)(term, x + i + 3 * LANES, y + i + 3 * LANES);
        }
        for (; i + LANES <= n; i += LANES)
            a += FN(vector_term)(term, x + i, y + i);
        sum = FN(sum_lanes)((a + b) + (c + d));
    }
    for (; i < n; i++)
        sum += FN(scalar_term)(term, x[i], y[i]);
    return sum;
}

#define DEFINE_SUM(name, term) \
    static T FN(name##_halves)(const T *x, const T *y, int64_t n) { \
        if (n <= SUM_BLOCK) \
            return FN(sum_block)(term, x, y, n); \
        const int64_t half = (n / 2 + SUM_BLOCK - 1) / SUM_BLOCK * SUM_BLOCK; \
        return FN(name##_halves)(x, y, half) + FN(name##_halves)(x + half, y + half, n - half); \
    } \
    SDBR_INLINE T FN(name)(const T *x, const T *y, int64_t n) { \
        return n <= SUM_BLOCK ? FN(sum_block)(term, x, y, n) : FN(name##_halves)(x, y, n); \
    }

DEFINE_SUM(sum_row_of, FN(TERM_X))
DEFINE_SUM(dot_row, FN(TERM_XY))
DEFINE_SUM(square_difference_row, FN(TERM_SQUARE))
DEFINE_SUM(absolute_difference_row, FN(TERM_ABSOLUTE))

SDBR_INLINE T FN(sum_row)(const T *x, int64_t n) { return FN(sum_row_of)(x, x, n); }

/* v > most ? v : most, by one instruction where there is one: masks make up to four of it. */
SDBR_INLINE FN(vec) FN(larger)(FN(vec) v, FN(vec) most) {
#ifdef SDBR_MAX
    return (FN(vec))SDBR_MAX(v, most);
#else
    const FN(ivec) more = v > most;
    return (FN(vec))(((FN(ivec))v & more) | ((FN(ivec))most & ~more));
#endif
}

/* The largest of n >= 1 elements, of -x when `sign` is -1; NaN if there is any. */
SDBR_INLINE T FN(extreme_row)(const T *x, int64_t n, T sign) {
    int64_t i = 1;
    T best = sign * x[0];
    int nan = x[0] != x[0];
    if (n >= LANES) {
        /* Four at a time: each comparison waits for the one before it. */
        FN(vec) most = sign * FN(load)(x), m[4] = {most, most, most, most};
        FN(ivec) odd = most != most, o[4] = {odd, odd, odd, odd};
        for (i = LANES; i + 4 * LANES <= n; i += 4 * LANES)
            for (int k = 0; k < 4; k++) {
                const FN(vec) v = sign * FN(load)(x + i + k * LANES);
                m[k] = FN(larger)(v, m[k]);
                o[k] |= v != v;
            }
        for (; i < n; i += LANES) { /* the last vector begins in the one before it: nothing is left over */
            const FN(vec) v = sign * FN(load)(x + (i + LANES <= n ? i : n - LANES));
            m[0] = FN(larger)(v, m[0]);
            o[0] |= v != v;
        }
        most = FN(larger)(FN(larger)(m[0], m[1]), FN(larger)(m[2], m[3]));
        odd = (o[0] | o[1]) | (o[2] | o[3]);
        T lanes[LANES];
        INT odds[LANES];
        FN(store)(lanes, most);
        memcpy(odds, &odd, sizeof odds);
        for (int64_t w = LANES / 2; w > 0; w /= 2)
            for (int64_t k = 0; k < w; k++) {
                lanes[k] = lanes[k + w] > lanes[k] ? lanes[k + w] : lanes[k];
                odds[k] |= odds[k + w];
            }
        best = lanes[0];
        nan = odds[0] != 0;
    }
    for (; i < n; i++) {
        const T v = sign * x[i];
        best = v > best ? v : best;
        nan |= v != v;
    }
    return nan ? (T)NAN : sign * best;
}

#undef SDBR_MAX
__attribute__((unused)) static T FN(max_row)(const T *x, int64_t n) { return FN(extreme_row)(x, n, (T)1); }
__attribute__((unused)) static T FN(min_row)(const T *x, int64_t n) { return FN(extreme_row)(x, n, (T)-1); }

#undef DEFINE_SUM
