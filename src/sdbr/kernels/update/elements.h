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

/* momentum v - g; p + lr v */
SDBR_INLINE T FN(corrected_momentum_of)(T g, T v, const T *f) { return f[1] * v - g; }
SDBR_INLINE T FN(corrected_momentum_step)(T p, T v, const T *f) { return p + f[0] * v; }

/* p + momentum^2 v - (1 + momentum) lr g, of the v that is made as momentum's */
SDBR_INLINE T FN(nesterov_of)(T g, T p, T v, const T *f) { return p + f[2] * v - f[3] * g; }

/* p - lr g / (sqrt(h) + eps), of h + g g */
SDBR_INLINE T FN(ada_grad_sum)(T g, T h) { return h + g * g; }
SDBR_INLINE T FN(ada_grad_of)(T g, T p, T h, const T *f) { return p - f[0] * g / (SQRT(h) + f[1]); }

/* rho ms + (1 - rho) x x; sqrt((msdx + eps) / (msg + eps)) g */
SDBR_INLINE T FN(ada_delta_square)(T x, T ms, const T *f) { return ms * f[0] + f[1] * x * x; }
SDBR_INLINE T FN(ada_delta_step)(T g, T msg, T msdx, const T *f) {
    return SQRT((msdx + f[2]) / (msg + f[2])) * g;
}

/* alpha n + (1 - alpha) g g; alpha mean + (1 - alpha) g; momentum delta - lr g / sqrt(n - mean mean + eps) */
SDBR_INLINE T FN(graves_square)(T g, T n, const T *f) { return n * f[1] + f[2] * g * g; }
SDBR_INLINE T FN(graves_mean)(T g, T mean, const T *f) { return mean * f[1] + f[2] * g; }
SDBR_INLINE T FN(graves_delta)(T g, T n, T mean, T delta, const T *f) {
    return delta * f[3] - f[0] * g / SQRT(n - mean * mean + f[4]);
}

/* Means with the part r = 1 / (mem + 1) of the new; x = mean mean / (square + eps). */
SDBR_INLINE T FN(smorms3_mean)(T g, T mean, T r) { return (1 - r) * mean + r * g; }
SDBR_INLINE T FN(smorms3_square)(T g, T square, T r) { return (1 - r) * square + r * g * g; }
SDBR_INLINE T FN(smorms3_x)(T mean, T square, const T *f) { return mean * mean / (square + f[1]); }
/* p - g min(x, lr) / (sqrt(square) + eps); a NaN stays one. */
SDBR_INLINE T FN(smorms3_of)(T g, T p, T square, T x, const T *f) {
    const T least = x < f[0] || x != x ? x : f[0];
    return p - g * least / (SQRT(square) + f[1]);
}

/* m += (1 - beta)(g - m); v += (1 - beta)(g g - v) */
SDBR_INLINE T FN(msvag_mean)(T g, T m, const T *f) { return m + f[1] * (g - m); }
SDBR_INLINE T FN(msvag_square)(T g, T v, const T *f) { return v + f[1] * (g * g - v); }
/* p - eta (lr mean factor + decay p); the factor is 0 where it is no number. */
SDBR_INLINE T FN(msvag_of)(T p, T m, T v, const T *f) {
    const T mean = m / f[4], squared = mean * mean;
    const T s = (v / f[4] - squared) / f[6];
    T factor = squared / (squared + f[5] * s);
    factor = factor > 0 ? factor : 0;
    factor = factor < 1 ? factor : 1;
    return p - f[2] * (f[0] * mean * factor + f[3] * p);
}

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

/* min(max(g, lower), upper); a NaN stays one. */
SDBR_INLINE T FN(hard_clip_of)(T g, const T *f) {
    /* The bounds alone decide about the second conditions, which leave the loop. */
    const T above = (g < f[0]) | (f[0] != f[0]) ? f[0] : g;
    return (above > f[1]) | (f[1] != f[1]) ? f[1] : above;
}

/* norm(p) / (eps + norm(g) + decay norm(p)) where that of p is above the threshold, else 1; (g + decay p) rate */
SDBR_INLINE T FN(lars_rate)(T of_p, T of_g, const T *f) {
    return of_p > f[0] ? of_p / (f[2] + of_g + f[1] * of_p) : 1;
}
SDBR_INLINE T FN(lars_of)(T g, T p, T rate, const T *f) { return (g + f[1] * p) * rate; }

/* Infinite or NaN. */
SDBR_INLINE int FN(is_not_finite)(T g) { return g - g != 0; }
