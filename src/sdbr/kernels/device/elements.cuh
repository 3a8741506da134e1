/* Element functions by dtype that choose between others. */

/* See elementwise/kernels.h, where whole kernels are chosen: here all threads go one way. */
SDBR_INLINE T FN(op_pow_constant)(T a, T p, T q) {
    return p == (T)2    ? FN(op_square)(a, p, q)
           : p == (T)1  ? a
           : p == (T)0.5 ? SQRT(a)
           : p == (T)-1 ? (T)1 / a
           : p == (T)3  ? FN(op_cube)(a, p, q)
           : p == (T)0  ? (T)1
                        : FN(op_pow_any)(a, p, q);
}
SDBR_INLINE T FN(op_pow_constant_grad)(T x, T gy, T p, T q) {
    return p == (T)2     ? FN(op_square_grad)(x, gy, p, q)
           : p == (T)3   ? FN(op_cube_grad)(x, gy, p, q)
           : p == (T)1.5 ? FN(op_sqrt_cube_grad)(x, gy, p, q)
                         : FN(op_pow_any_grad)(x, gy, p, q);
}
