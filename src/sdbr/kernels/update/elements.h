/* Updates of one element, by dtype: of the kernels of the CPU, and of those for GPUs. `f`: the scalars, rounded to T
 * first, as NumPy does with Python floats next to an array of T. */

#define SDBR_UPDATE_FLOATS 8 /* at most */
#define SDBR_ROUNDED(f, floats, count) \
    T f[SDBR_UPDATE_FLOATS]; \
    for (int k = 0; k < (count); k++) \
        f[k] = (T)(floats)[k]

/* p - lr g */
SDBR_INLINE T FN(sgd_of)(T g, T p, const T *f) { return p - f[0] * g; }

/* momentum v - lr g */
SDBR_INLINE T FN(momentum_of)(T g, T v, const T *f) { return f[1] * v - f[0] * g; }

/* m += (1 - beta1)(g - m); v += (1 - beta2)(g g - v) */
SDBR_INLINE T FN(adam_mean)(T g, T m, const T *f) { return m + f[1] * (g - m); }
SDBR_INLINE T FN(adam_square)(T g, T v, const T *f) { return v + f[2] * (g * g - v); }

/* max(vhat, v); a NaN stays one. */
SDBR_INLINE T FN(adam_largest)(T vhat, T v) { return vhat < v || v != v ? v : vhat; }

/* step = alpha_t / (sqrt(s) + eps) in [lower, upper]; decay p - eta step m. A NaN stays one. */
SDBR_INLINE T FN(adam_of)(T p, T m, T s, const T *f) {
    T step = f[0] / (SQRT(s) + f[3]);
    step = step < f[6] ? f[6] : step;
    step = step > f[7] ? f[7] : step;
    return f[5] * p - f[4] * (step * m);
}

/* alpha ms + (1 - alpha) g g */
SDBR_INLINE T FN(rmsprop_square)(T g, T ms, const T *f) {
    return ms * f[1] + f[2] * g * g;
}

/* p - lr g / (sqrt(ms + eps) + eps), one of the two eps being 0 */
SDBR_INLINE T FN(rmsprop_of)(T g, T p, T ms, const T *f) {
    return p - f[0] * g / (SQRT(ms + f[3]) + f[4]);
}

/* g + rate p */
SDBR_INLINE T FN(weight_decay_of)(T g, T p, const T *f) { return g + f[0] * p; }

/* g + rate sign(p); a NaN stays one. */
SDBR_INLINE T FN(lasso_of)(T g, T p, const T *f) {
    const T sign = p > 0 ? (T)1 : (p < 0 ? (T)-1 : p);
    return g + f[0] * sign;
}
