/* Functions of mathematics, by dtype; see arithmetic.h. Most vectorise in float (special_f4.h,
 * trigonometry_f4.h, gamma_f4.h); what else is around gamma and erf is in gamma_f8.h and erf_f8.h; the others
 * call the C library. */

#if SDBR_FLOATS
#define C_FUNCTION(name) name##f
#define VECTOR_FUNCTION(name, c_name) sdbr_##name##_f4
#else
#define C_FUNCTION(name) name
#define VECTOR_FUNCTION(name, c_name) c_name
#endif

SDBR_INLINE T FN(op_erf)(T a, T p, T q) { return (void)p, (void)q, VECTOR_FUNCTION(erf, erf)(a); }
SDBR_INLINE T FN(op_log1p)(T a, T p, T q) { return (void)p, (void)q, VECTOR_FUNCTION(log1p, log1p)(a); }

/* Near 0 the difference is taken before it is rounded; far from it there is nothing to lose. */
SDBR_INLINE T FN(op_expm1)(T a, T p, T q) {
    (void)p, (void)q;
    T near = a > 40 ? (T)40 : a;
    near = COPYSIGN(FN(sdbr_expm1_bounded)(near < -40 ? (T)-40 : near), a);
    return a > 40 ? FN(sdbr_exp)(a) : near;
}

SDBR_INLINE T FN(op_erfc)(T a, T p, T q) { return (void)p, (void)q, C_FUNCTION(erfc)(a); }
SDBR_INLINE T FN(op_ndtr)(T a, T p, T q) {
    return (void)p, (void)q, (T)(0.5 * erfc((double)a * -0.70710678118654752440));
}
SDBR_INLINE T FN(op_log_ndtr)(T a, T p, T q) { return (void)p, (void)q, (T)sdbr_log_ndtr_f8((double)a); }
SDBR_INLINE T FN(op_log2)(T a, T p, T q) { return (void)p, (void)q, VECTOR_FUNCTION(log2, log2)(a); }
SDBR_INLINE T FN(op_log10)(T a, T p, T q) { return (void)p, (void)q, VECTOR_FUNCTION(log10, log10)(a); }
SDBR_INLINE T FN(op_lgamma)(T a, T p, T q) { return (void)p, (void)q, VECTOR_FUNCTION(lgamma, sdbr_lgamma_f8)(a); }
SDBR_INLINE T FN(op_digamma)(T a, T p, T q) { return (void)p, (void)q, VECTOR_FUNCTION(digamma, sdbr_digamma_f8)(a); }
SDBR_INLINE T FN(op_sinh)(T a, T p, T q) { return (void)p, (void)q, VECTOR_FUNCTION(sinh, sinh)(a); }
SDBR_INLINE T FN(op_cosh)(T a, T p, T q) { return (void)p, (void)q, VECTOR_FUNCTION(cosh, cosh)(a); }
SDBR_INLINE T FN(op_sin)(T a, T p, T q) { return (void)p, (void)q, C_FUNCTION(sin)(a); }
SDBR_INLINE T FN(op_cos)(T a, T p, T q) { return (void)p, (void)q, C_FUNCTION(cos)(a); }
SDBR_INLINE T FN(op_tan)(T a, T p, T q) { return (void)p, (void)q, C_FUNCTION(tan)(a); }

/* What rows of them consist of as long as all is plain (SDBR_GUARDED_ROW): in float, most arguments. */
#if SDBR_FLOATS
#define PLAIN(name, is_plain) \
    SDBR_INLINE int FN(is_plain_##name)(T a) { return is_plain(a); } \
    SDBR_INLINE T FN(plain_##name)(T a) { return sdbr_plain_##name##_f4(a); }
#else
#define PLAIN(name, is_plain) \
    SDBR_INLINE int FN(is_plain_##name)(T a) { return (void)a, 1; } \
    SDBR_INLINE T FN(plain_##name)(T a) { return FN(op_##name)(a, 0, 0); }
#endif
PLAIN(lgamma, sdbr_is_plain_gamma_f4)
PLAIN(digamma, sdbr_is_plain_gamma_f4)
PLAIN(log1p, sdbr_is_plain_log1p_f4)
PLAIN(log2, sdbr_is_plain_log_f4)
PLAIN(log10, sdbr_is_plain_log_f4)
PLAIN(expm1, sdbr_is_plain_expm1_f4)
PLAIN(sinh, sdbr_is_plain_sinh_f4)
PLAIN(cosh, sdbr_is_plain_sinh_f4)
PLAIN(sin, sdbr_is_plain_sin_f4)
PLAIN(cos, sdbr_is_plain_sin_f4)
PLAIN(tan, sdbr_is_plain_sin_f4)
#undef PLAIN

SDBR_INLINE T FN(op_arcsin)(T a, T p, T q) { return (void)p, (void)q, VECTOR_FUNCTION(arcsin, asin)(a); }
SDBR_INLINE T FN(op_arccos)(T a, T p, T q) { return (void)p, (void)q, VECTOR_FUNCTION(arccos, acos)(a); }
SDBR_INLINE T FN(op_arctan)(T a, T p, T q) { return (void)p, (void)q, VECTOR_FUNCTION(arctan, atan)(a); }
SDBR_INLINE T FN(op_arctanh)(T a, T p, T q) { return (void)p, (void)q, VECTOR_FUNCTION(arctanh, atanh)(a); }
SDBR_INLINE T FN(op_floor)(T a, T p, T q) { return (void)p, (void)q, C_FUNCTION(floor)(a); }
SDBR_INLINE T FN(op_ceil)(T a, T p, T q) { return (void)p, (void)q, C_FUNCTION(ceil)(a); }
SDBR_INLINE T FN(op_trunc)(T a, T p, T q) { return (void)p, (void)q, C_FUNCTION(trunc)(a); }
SDBR_INLINE T FN(op_hard_sigmoid)(T a, T p, T q) {
    (void)p, (void)q;
    T y = a * (T)0.2 + (T)0.5;
    y = y < 0 ? (T)0 : y;
    return y > 1 ? (T)1 : y;
}

SDBR_INLINE T FN(op_arctan2)(T a, T b, T p, T q) { return (void)p, (void)q, VECTOR_FUNCTION(arctan2, atan2)(a, b); }
SDBR_INLINE T FN(op_fmod)(T a, T b, T p, T q) { return (void)p, (void)q, C_FUNCTION(fmod)(a, b); }
SDBR_INLINE T FN(op_divide_nonzero)(T a, T b, T p, T q) {
    return (void)p, (void)q, b != 0 ? a / b : (T)0;
}
SDBR_INLINE T FN(op_gauss_grad)(T x, T gy, T p, T q) { return p * FN(sdbr_exp)(q * (x * x)) * gy; }
SDBR_INLINE T FN(op_log_ndtr_grad)(T x, T gy, T p, T q) {
    return (void)p, (void)q, (T)sdbr_log_ndtr_slope_f8((double)x) * gy;
}
SDBR_INLINE T FN(op_hard_sigmoid_grad)(T x, T gy, T p, T q) {
    return (void)p, (void)q, (T)((x > (T)-2.5) & (x < (T)2.5)) * gy * (T)0.2;
}

/* In double for both dtypes, as SciPy has it. */
#define DOUBLE_FUNCTION(name) \
    SDBR_INLINE T FN(op_##name)(T a, T p, T q) { return (void)p, (void)q, (T)sdbr_##name##_f8((double)a); }
DOUBLE_FUNCTION(trigamma)
DOUBLE_FUNCTION(erfinv)
DOUBLE_FUNCTION(erfcinv)
DOUBLE_FUNCTION(erfcx)
#undef DOUBLE_FUNCTION

#undef C_FUNCTION
#undef VECTOR_FUNCTION
