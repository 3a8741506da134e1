/* Maxima and logarithms of sums of exponentials along n of x[outer, n, inner], by dtype.
 *
 * Rows are taken in groups of up to ROW_BLOCK elements, so that exp runs over the elements of many
 * short rows at once. Columns are taken in groups of up to COLUMN_BLOCK. */

#define ROW_BLOCK 1024
#define COLUMN_BLOCK 256

SDBR_INLINE int64_t FN(rows_at_once)(int64_t n) { return n >= ROW_BLOCK ? 1 : ROW_BLOCK / (n > 0 ? n : 1); }

SDBR_INLINE void FN(exp_all)(const T *x, T *y, int64_t n) {
    SDBR_IVDEP
    for (int64_t i = 0; i < n; i++)
        y[i] = FN(sdbr_exp)(x[i]);
}

/* The lengths of very short rows are constants, so that the loops over them unroll: three times as
 * fast for two classes. */
#define FOR_LENGTH(n, CALL) \
    switch (n) { \
    case 2: \
        CALL(2); \
        break; \
    case 3: \
        CALL(3); \
        break; \
    case 4: \
        CALL(4); \
        break; \
    default: \
        CALL(n); \
    }

SDBR_INLINE T FN(max_of)(const T *x, int64_t n) {
    if (n > 4)
        return FN(max_row)(x, n);
    T m = x[0];
    for (int64_t i = 1; i < n; i++)
        m = FN(op_maximum)(x[i], m, 0, 0);
    return m;
}

/* m = max(x), y = x - m. */
SDBR_INLINE void FN(below_max_loop)(const T *x, T *y, T *m, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; r++) {
        m[r] = FN(max_of)(x + r * n, n);
        SDBR_IVDEP
        for (int64_t i = 0; i < n; i++)
            y[r * n + i] = x[r * n + i] - m[r];
    }
}

static void FN(below_max)(const T *x, T *y, T *m, int64_t rows, int64_t n) {
#define CALL(N) FN(below_max_loop)(x, y, m, rows, N)
    FOR_LENGTH(n, CALL)
#undef CALL
}

SDBR_INLINE void FN(sum_loop)(const T *x, T *s, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; r++) {
        if (n > 4) {
            s[r] = FN(sum_row)(x + r * n, n);
            continue;
        }
        T sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += x[r * n + i];
        s[r] = sum;
    }
}

static void FN(sum_each)(const T *x, T *s, int64_t rows, int64_t n) {
#define CALL(N) FN(sum_loop)(x, s, rows, N)
    FOR_LENGTH(n, CALL)
#undef CALL
}

#define DEFINE_EXTREME_AXIS(name, choice) \
    SDBR_INLINE void FN(name##_axis)(const T *x, int64_t n, int64_t inner, int64_t width, T *y) { \
        for (int64_t j = 0; j < width; j++) \
            y[j] = x[j]; \
        for (int64_t r = 1; r < n; r++) { \
            const T *row = x + r * inner; \
            SDBR_IVDEP \
            for (int64_t j = 0; j < width; j++) \
                y[j] = FN(choice)(y[j], row[j], 0, 0); \
        } \
    }

DEFINE_EXTREME_AXIS(max, op_maximum)
DEFINE_EXTREME_AXIS(min, op_minimum)

#undef DEFINE_EXTREME_AXIS

/* Sum of exp(x - m) of a row longer than the scratch. */
SDBR_INLINE T FN(sum_exp_long)(const T *x, T m, int64_t n, T *scratch) {
    sdbr_pairs pairs;
    pairs.count = 0;
    for (int64_t i = 0; i < n; i += ROW_BLOCK) {
        const int64_t length = n - i < ROW_BLOCK ? n - i : ROW_BLOCK;
        for (int64_t k = 0; k < length; k++)
            scratch[k] = FN(sdbr_exp)(x[i + k] - m);
        sdbr_add_to_pairs(&pairs, (double)FN(sum_row)(scratch, length));
    }
    return (T)sdbr_sum_of_pairs(&pairs);
}

/* m = log(sum(exp(x))) of each of a group of rows. */
static void FN(log_sums)(const T *x, T *m, int64_t rows, int64_t n) {
    T scratch[ROW_BLOCK], s[ROW_BLOCK];
    if (n > ROW_BLOCK) {
        m[0] = FN(max_row)(x, n);
        s[0] = FN(sum_exp_long)(x, m[0], n, scratch);
    } else {
        FN(below_max)(x, scratch, m, rows, n);
        FN(exp_all)(scratch, scratch, rows * n);
        FN(sum_each)(scratch, s, rows, n);
    }
    for (int64_t r = 0; r < rows; r++)
        m[r] += FN(sdbr_log)(s[r]);
}

/* m = log(sum(exp(x))) of `width` columns, at most COLUMN_BLOCK. */
SDBR_INLINE void FN(log_sums_of_columns)(const T *x, T *m, int64_t n, int64_t inner, int64_t width) {
    T s[COLUMN_BLOCK];
    FN(max_axis)(x, n, inner, width, m);
    for (int64_t k = 0; k < width; k++)
        s[k] = 0;
    for (int64_t r = 0; r < n; r++) {
        SDBR_IVDEP
        for (int64_t k = 0; k < width; k++)
            s[k] += FN(sdbr_exp)(x[r * inner + k] - m[k]);
    }
    for (int64_t k = 0; k < width; k++)
        m[k] += FN(sdbr_log)(s[k]);
}
