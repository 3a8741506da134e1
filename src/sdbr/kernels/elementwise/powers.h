/* Rows of powers, by dtype: 256 elements at a time without what is for bases and exponents that are rare (0,
 * negative ones, infinities, NaN), where none of them is there. `x` and `y` are the i-th base and exponent,
 * `left` and `right` what is assigned around their power. */

#define SDBR_POWER_ROW(x, y, left, right) \
    for (int64_t from = 0; from < n; from += 256) { \
        const int64_t end = n - from < 256 ? n : from + 256; \
        int other = 0; \
        for (int64_t i = from; i < end; i++) \
            other |= !FN(sdbr_is_plain_pow)(x, y); \
        if (other) { \
            SDBR_IVDEP \
            for (int64_t i = from; i < end; i++) \
                left FN(sdbr_pow)(x, y) right; \
        } else { \
            SDBR_IVDEP \
            for (int64_t i = from; i < end; i++) \
                left FN(sdbr_plain_pow)(x, y) right; \
        } \
    }

SDBR_INLINE void FN(pow_any_row)(const T *x, T *y, int64_t n, const double *floats) {
    const T p = (T)floats[0];
    SDBR_POWER_ROW(x[i], p, y[i] =, )
}

SDBR_INLINE void FN(rpow_constant_row)(const T *x, T *y, int64_t n, const double *floats) {
    const T p = (T)floats[0];
    SDBR_POWER_ROW(p, x[i], y[i] =, )
}

SDBR_INLINE void FN(power_row)(const T *x, int sx, const T *y, int sy, T *z, int64_t n, const double *floats) {
    const T x0 = *x, y0 = *y;
    (void)floats;
    SDBR_POWER_ROW((sx ? x[i] : x0), (sy ? y[i] : y0), z[i] =, )
}

SDBR_INLINE void FN(pow_any_grad_row)(const T *x, int sx, const T *gy, int sy, T *gx, int64_t n,
                                      const double *floats) {
    const T x0 = *x, gy0 = *gy, p = (T)floats[0];
    SDBR_POWER_ROW((sx ? x[i] : x0), (p - (T)1), gx[i] = p *, *(sy ? gy[i] : gy0))
}

SDBR_INLINE void FN(power_grad_x_row)(const T *x, const T *y, int sy, const T *gz, int sz, T *gx, int64_t n,
                                      const double *floats) {
    const T y0 = *y, gz0 = *gz;
    (void)floats;
    SDBR_POWER_ROW(x[i], ((sy ? y[i] : y0) - (T)1), gx[i] = (sy ? y[i] : y0) *, *(sz ? gz[i] : gz0))
}

#undef SDBR_POWER_ROW
