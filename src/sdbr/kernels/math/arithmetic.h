/* Elementwise arithmetic, by dtype. a, b, c are the inputs, p and q the float attributes; each
 * function is the NumPy expression of its row in the op table. Comparisons are written so that a
 * NaN goes where NumPy lets it go. */

SDBR_INLINE T FN(op_negative)(T a, T p, T q) { return (void)p, (void)q, -a; }
SDBR_INLINE T FN(op_absolute)(T a, T p, T q) { return (void)p, (void)q, FABS(a); }
SDBR_INLINE T FN(op_sign)(T a, T p, T q) {
    (void)p, (void)q;
    return a > 0 ? (T)1 : (a < 0 ? (T)-1 : (a == 0 ? (T)0 : a));
}
SDBR_INLINE T FN(op_exp)(T a, T p, T q) { return (void)p, (void)q, FN(sdbr_exp)(a); }
SDBR_INLINE T FN(op_log)(T a, T p, T q) { return (void)p, (void)q, FN(sdbr_log)(a); }
SDBR_INLINE T FN(op_sqrt)(T a, T p, T q) { return (void)p, (void)q, SQRT(a); }
SDBR_INLINE T FN(op_square)(T a, T p, T q) { return (void)p, (void)q, a * a; }
SDBR_INLINE T FN(op_reciprocal)(T a, T p, T q) { return (void)p, (void)q, (T)1 / a; }
SDBR_INLINE T FN(op_relu)(T a, T p, T q) { return (void)p, (void)q, a <= 0 ? (T)0 : a; }
SDBR_INLINE T FN(op_tanh)(T a, T p, T q) { return (void)p, (void)q, FN(sdbr_tanh)(a); }

/* Rounding after the halves, as in the formula of the row, is wanted: for a << 0 the result is a
 * multiple of the spacing at 1, as in define-by-run. */
SDBR_INLINE T FN(sdbr_sigmoid)(T a) {
    return COPYSIGN(FN(sdbr_tanh_half)(FABS(a)), a) * (T)0.5 + (T)0.5;
}
SDBR_INLINE T FN(op_sigmoid)(T a, T p, T q) { return (void)p, (void)q, FN(sdbr_sigmoid)(a); }

SDBR_INLINE T FN(op_leaky_relu)(T a, T p, T q) { return (void)q, a <= 0 ? p * a : a; }
SDBR_INLINE T FN(op_elu)(T a, T p, T q) {
    (void)q;
    T e = p * COPYSIGN(FN(sdbr_expm1_negative)(a > 0 ? (T)0 : a), a); /* -0 stays -0 */
    return a <= 0 ? e : a;
}
SDBR_INLINE T FN(op_clipped_relu)(T a, T p, T q) {
    (void)q;
    T m = a < 0 ? (T)0 : a;
    return m > p ? p : m;
}
SDBR_INLINE T FN(op_softplus)(T a, T p, T q) {
    (void)q;
    T b = p * a;
    return ((b > 0 ? b : (T)0) + FN(sdbr_log1p_unit)(FN(sdbr_exp)(-FABS(b)))) / p;
}
SDBR_INLINE T FN(op_clip)(T a, T p, T q) {
    T m = a < p ? p : a;
    m = m > q ? q : m;
    return p != p || q != q ? (T)NAN : m;
}
SDBR_INLINE T FN(op_add_constant)(T a, T p, T q) { return (void)q, a + p; }
SDBR_INLINE T FN(op_rsub_constant)(T a, T p, T q) { return (void)q, p - a; }
SDBR_INLINE T FN(op_mul_constant)(T a, T p, T q) { return (void)q, a * p; }
SDBR_INLINE T FN(op_div_constant)(T a, T p, T q) { return (void)q, a / p; }
SDBR_INLINE T FN(op_rdiv_constant)(T a, T p, T q) { return (void)q, p / a; }
SDBR_INLINE T FN(op_rpow_constant)(T a, T p, T q) { return (void)q, FN(sdbr_pow)(p, a); }
SDBR_INLINE T FN(op_pow_any)(T a, T p, T q) { return (void)q, FN(sdbr_pow)(a, p); }
SDBR_INLINE T FN(op_one)(T a, T p, T q) { return (void)a, (void)p, (void)q, (T)1; }
SDBR_INLINE T FN(op_identity)(T a, T p, T q) { return (void)p, (void)q, a; }
SDBR_INLINE T FN(op_cube)(T a, T p, T q) { return (void)p, (void)q, a * a * a; }

SDBR_INLINE T FN(op_add)(T a, T b, T p, T q) { return (void)p, (void)q, a + b; }
SDBR_INLINE T FN(op_subtract)(T a, T b, T p, T q) { return (void)p, (void)q, a - b; }
SDBR_INLINE T FN(op_multiply)(T a, T b, T p, T q) { return (void)p, (void)q, a * b; }
SDBR_INLINE T FN(op_divide)(T a, T b, T p, T q) { return (void)p, (void)q, a / b; }
SDBR_INLINE T FN(op_power)(T a, T b, T p, T q) { return (void)p, (void)q, FN(sdbr_pow)(a, b); }
SDBR_INLINE T FN(op_maximum)(T a, T b, T p, T q) {
    (void)p, (void)q;
    return (a > b) | (a != a) ? a : b;
}
SDBR_INLINE T FN(op_minimum)(T a, T b, T p, T q) {
    (void)p, (void)q;
    return (a < b) | (a != a) ? a : b;
}
/* A product with 0, as in define-by-run: NaN and infinities come through. */
SDBR_INLINE T FN(op_relu_grad)(T y, T gy, T p, T q) { return (void)p, (void)q, gy * (T)(y > 0); }
SDBR_INLINE T FN(op_leaky_relu_grad)(T x, T gy, T p, T q) { return (void)q, x <= 0 ? p * gy : gy; }
SDBR_INLINE T FN(op_elu_grad)(T x, T gy, T p, T q) {
    (void)q;
    T e = p * FN(sdbr_exp)(x) * gy;
    return x > 0 ? gy : e;
}
SDBR_INLINE T FN(op_clipped_relu_grad)(T x, T gy, T p, T q) {
    return (void)q, gy * (T)((0 < x) & (x < p));
}
SDBR_INLINE T FN(op_sigmoid_grad)(T y, T gy, T p, T q) {
    return (void)p, (void)q, gy * y * ((T)1 - y);
}
SDBR_INLINE T FN(op_tanh_grad)(T y, T gy, T p, T q) {
    return (void)p, (void)q, gy * ((T)1 - y * y);
}
SDBR_INLINE T FN(op_softplus_grad)(T x, T gy, T p, T q) {
    return (void)q, gy / ((T)1 + FN(sdbr_exp)(-p * x));
}
SDBR_INLINE T FN(op_clip_grad)(T x, T gy, T p, T q) { return gy * (T)((p <= x) & (x <= q)); }
SDBR_INLINE T FN(op_absolute_grad)(T x, T gy, T p, T q) { return FN(op_sign)(x, p, q) * gy; }
SDBR_INLINE T FN(op_sqrt_grad)(T y, T gy, T p, T q) { return (void)p, (void)q, gy / ((T)2 * y); }
SDBR_INLINE T FN(op_square_grad)(T x, T gy, T p, T q) { return (void)p, (void)q, (T)2 * x * gy; }
SDBR_INLINE T FN(op_rpow_constant_grad)(T y, T gy, T p, T q) {
    return (void)q, (T)log(p) * y * gy;
}
SDBR_INLINE T FN(op_rdiv_constant_grad)(T x, T gy, T p, T q) {
    return (void)q, -p * gy / (x * x);
}
SDBR_INLINE T FN(op_huber)(T x, T y, T p, T q) {
    (void)q;
    T a = FABS(x - y);
    T far = p * (a - p / (T)2), near = a * a / (T)2;
    return a > p ? far : near;
}
SDBR_INLINE T FN(op_pow_any_grad)(T x, T gy, T p, T q) {
    return (void)q, p * FN(sdbr_pow)(x, p - (T)1) * gy;
}
SDBR_INLINE T FN(op_sqrt_cube_grad)(T x, T gy, T p, T q) {
    return (void)p, (void)q, (T)1.5 * SQRT(x) * gy;
}
SDBR_INLINE T FN(op_cube_grad)(T x, T gy, T p, T q) { return (void)p, (void)q, (T)3 * (x * x) * gy; }

SDBR_INLINE T FN(op_divide_grad_y)(T x, T y, T gz, T p, T q) {
    return (void)p, (void)q, -(gz / y) * x / y;
}
SDBR_INLINE T FN(op_power_grad_x)(T x, T y, T gz, T p, T q) {
    return (void)p, (void)q, y * FN(sdbr_pow)(x, y - (T)1) * gz;
}
SDBR_INLINE T FN(op_power_grad_y)(T x, T z, T gz, T p, T q) {
    return (void)p, (void)q, FN(sdbr_log)(x) * z * gz;
}
SDBR_INLINE T FN(op_where_ge)(T x, T y, T gz, T p, T q) {
    return (void)p, (void)q, x >= y ? gz : (T)0;
}
SDBR_INLINE T FN(op_where_not_ge)(T x, T y, T gz, T p, T q) {
    return (void)p, (void)q, x >= y ? (T)0 : gz;
}
SDBR_INLINE T FN(op_mask_ge)(T x, T y, T gz, T p, T q) {
    return (void)p, (void)q, gz * (T)(x >= y);
}
SDBR_INLINE T FN(op_mask_gt)(T x, T y, T gz, T p, T q) {
    return (void)p, (void)q, gz * (T)(x > y);
}
SDBR_INLINE T FN(op_mask_eq)(T x, T y, T gz, T p, T q) {
    return (void)p, (void)q, gz * (T)(x == y);
}
SDBR_INLINE T FN(op_huber_grad)(T x, T y, T gloss, T p, T q) {
    T d = x - y;
    return gloss * (FABS(d) > p ? p * FN(op_sign)(d, p, q) : d);
}
/* With p: -inf for x other than 0 and 1. Fused into one multiply-add, infinity less infinity would
 * not be noticed. */
SDBR_INLINE T FN(op_bernoulli_log_prob)(T logit, T x, T p, T q) {
    (void)q;
    const T product = logit * (x - (T)1), less = FN(sdbr_log_from_one)(FN(sdbr_exp)(-logit) + (T)1);
    const int undefined = (product == (T)INFINITY) & (less == (T)INFINITY);
    const T y = undefined ? (T)NAN : product - less;
    const T sure = FN(sdbr_log)(logit > 0 ? x : (T)1 - x);
    const T value = FABS(logit) == (T)INFINITY ? sure : y;
    return (p != 0) & (x != 0) & (x != (T)1) ? -(T)INFINITY : value;
}
SDBR_INLINE T FN(op_bernoulli_log_prob_grad)(T logit, T x, T gy, T p, T q) {
    (void)q;
    const T d = x - (T)1 / ((T)1 + FN(sdbr_exp)(-logit));
    const int undefined = (FABS(logit) == (T)INFINITY) | ((p != 0) & (x != 0) & (x != (T)1));
    return gy * (undefined ? (T)NAN : d);
}
SDBR_INLINE T FN(op_rrelu)(T x, T r, T p, T q) { return (void)p, (void)q, x >= 0 ? x : x * r; }
SDBR_INLINE T FN(op_rrelu_grad)(T y, T r, T gy, T p, T q) {
    return (void)p, (void)q, y >= 0 ? gy : gy * r;
}
