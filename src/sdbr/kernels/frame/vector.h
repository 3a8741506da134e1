/* Sums, maxima and dot products of contiguous rows, by dtype. The vector type is an extension that
 * gcc and clang share; it is private to these functions. */

typedef T FN(vec) __attribute__((vector_size(SDBR_VECTOR_BYTES)));
typedef INT FN(ivec) __attribute__((vector_size(SDBR_VECTOR_BYTES)));

#define LANES ((int64_t)(SDBR_VECTOR_BYTES / sizeof(T)))

/* The larger or smaller lane by lane; the second where one is NaN. */
#if defined(__x86_64__) && SDBR_VECTOR_BYTES == 64
#define SDBR_CHOICE(kind, a, b) \
    (SDBR_FLOATS ? (__m512)_mm512_##kind##_ps((__m512)(a), (__m512)(b)) \
                 : (__m512)_mm512_##kind##_pd((__m512d)(a), (__m512d)(b)))
#elif defined(__x86_64__) && SDBR_VECTOR_BYTES == 32
#define SDBR_CHOICE(kind, a, b) \
    (SDBR_FLOATS ? (__m256)_mm256_##kind##_ps((__m256)(a), (__m256)(b)) \
                 : (__m256)_mm256_##kind##_pd((__m256d)(a), (__m256d)(b)))
#elif defined(__x86_64__)
#define SDBR_CHOICE(kind, a, b) \
    (SDBR_FLOATS ? (__m128)_mm_##kind##_ps((__m128)(a), (__m128)(b)) \
                 : (__m128)_mm_##kind##_pd((__m128d)(a), (__m128d)(b)))
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

/* Steps of four vectors, and elements, until a sum begins anew. */
#define SUM_STEPS 32
#define SUM_SHORT (4 * LANES * SUM_STEPS)

/* SUM_STEPS times four vectors. */
SDBR_INLINE FN(vec) FN(sum_steps)(int term, const T *x, const T *y) {
    FN(vec) s[4];
    for (int u = 0; u < 4; u++)
        s[u] = FN(vector_term)(term, x + u * LANES, y + u * LANES);
    SDBR_ROLLED for (int64_t i = 4 * LANES; i < SUM_SHORT; i += 4 * LANES)
        for (int u = 0; u < 4; u++)
            s[u] += FN(vector_term)(term, x + i + u * LANES, y + i + u * LANES);
    return (s[0] + s[1]) + (s[2] + s[3]);
}

SDBR_INLINE T FN(sum_short)(int term, const T *x, const T *y, int64_t n) {
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
    T rest = 0; /* by itself: each addition to the sum would round all of it */
    for (; i < n; i++)
        rest += FN(scalar_term)(term, x[i], y[i]);
    return sum + rest;
}

/* Sums begin anew after SUM_SHORT elements: what is added to a small sum is rounded by little. */
SDBR_INLINE T FN(sum_block)(int term, const T *x, const T *y, int64_t n) {
    FN(vec) total = FN(splat)(0);
    int64_t i = 0;
    for (; i + SUM_SHORT <= n; i += SUM_SHORT)
        total += FN(sum_steps)(term, x + i, y + i);
    const T sum = FN(sum_lanes)(total);
    return i < n ? sum + FN(sum_short)(term, x + i, y + i, n - i) : sum;
}

#define DEFINE_SUM(name, term) \
    static T FN(name##_halves)(const T *x, const T *y, int64_t n) { \
        if (n <= SUM_BLOCK) \
            return n <= SUM_SHORT ? FN(sum_short)(term, x, y, n) : FN(sum_block)(term, x, y, n); \
        const int64_t half = (n / 2 + SUM_BLOCK - 1) / SUM_BLOCK * SUM_BLOCK; \
        return FN(name##_halves)(x, y, half) + FN(name##_halves)(x + half, y + half, n - half); \
    } \
    SDBR_INLINE T FN(name)(const T *x, const T *y, int64_t n) { \
        return n <= SUM_SHORT ? FN(sum_short)(term, x, y, n) : FN(name##_halves)(x, y, n); \
    }

DEFINE_SUM(sum_row_of, FN(TERM_X))
DEFINE_SUM(dot_row, FN(TERM_XY))
DEFINE_SUM(square_difference_row, FN(TERM_SQUARE))
DEFINE_SUM(absolute_difference_row, FN(TERM_ABSOLUTE))

SDBR_INLINE T FN(sum_row)(const T *x, int64_t n) { return FN(sum_row_of)(x, x, n); }

/* v > most ? v : most, or the same with less where `sign` is -1, by one instruction where there is one: masks
 * make up to four of it. */
SDBR_INLINE FN(vec) FN(further)(FN(vec) v, FN(vec) most, T sign) {
#ifdef SDBR_CHOICE
    return sign > 0 ? (FN(vec))SDBR_CHOICE(max, v, most) : (FN(vec))SDBR_CHOICE(min, v, most);
#else
    const FN(ivec) more = sign > 0 ? v > most : v < most;
    return (FN(vec))(((FN(ivec))v & more) | ((FN(ivec))most & ~more));
#endif
}

/* The largest of n >= 1 elements, the smallest when `sign` is -1; NaN if there is any. */
SDBR_INLINE T FN(extreme_row)(const T *x, int64_t n, T sign) {
    int64_t i = 1;
    T best = x[0], any = x[0];
    if (n >= LANES) {
        /* Four at a time: each comparison waits for the one before it. A NaN shows in the sums, which take
         * one instruction where to ask for it takes three. */
        const FN(vec) first = FN(load)(x);
        FN(vec) m[4] = {first, first, first, first}, s[4] = {first, first, first, first};
        for (i = LANES; i + 4 * LANES <= n; i += 4 * LANES)
            for (int k = 0; k < 4; k++) {
                const FN(vec) v = FN(load)(x + i + k * LANES);
                m[k] = FN(further)(v, m[k], sign);
                s[k] += v;
            }
        for (; i < n; i += LANES) { /* the last vector begins in the one before it: nothing is left over */
            const FN(vec) v = FN(load)(x + (i + LANES <= n ? i : n - LANES));
            m[0] = FN(further)(v, m[0], sign);
            s[0] += v;
        }
        T lanes[LANES];
        FN(store)(lanes, FN(further)(FN(further)(m[0], m[1], sign), FN(further)(m[2], m[3], sign), sign));
        for (int64_t w = LANES / 2; w > 0; w /= 2)
            for (int64_t k = 0; k < w; k++)
                lanes[k] = (sign > 0 ? lanes[k + w] > lanes[k] : lanes[k + w] < lanes[k]) ? lanes[k + w] : lanes[k];
        best = lanes[0];
        any = FN(sum_lanes)((s[0] + s[1]) + (s[2] + s[3]));
    }
    for (; i < n; i++) {
        best = (sign > 0 ? x[i] > best : x[i] < best) ? x[i] : best;
        any += x[i];
    }
    if (any != any) { /* or infinities have met */
        INT nan = 0;
        for (int64_t k = 0; k < n; k++)
            nan |= x[k] != x[k];
        return nan ? (T)NAN : best;
    }
    return best;
}

#undef SUM_STEPS
#undef SUM_SHORT
#undef SDBR_CHOICE
__attribute__((unused)) static T FN(max_row)(const T *x, int64_t n) { return FN(extreme_row)(x, n, (T)1); }
__attribute__((unused)) static T FN(min_row)(const T *x, int64_t n) { return FN(extreme_row)(x, n, (T)-1); }

#undef DEFINE_SUM
