/* Updates of parameters, by dtype. ints: [n]. */

#define SDBR_UPDATE(name, count, ...) \
    SDBR_INLINE void FN(name##_team)(sdbr_team team, const sdbr_device_op *op) { \
        const int64_t n = op->ints[0]; \
        SDBR_ROUNDED(f, op->floats, count); \
        const T *g = SDBR_IN(0), *p = SDBR_IN(1); \
        for (int64_t i = sdbr_first(team); i < n; i += sdbr_stride(team)) { \
            __VA_ARGS__ \
        } \
    }

SDBR_UPDATE(sgd, 1, SDBR_OUT(2)[i] = FN(sgd_of)(g[i], p[i], f);)
SDBR_UPDATE(momentum_sgd, 2, {
    const T next = FN(momentum_of)(g[i], SDBR_IN(2)[i], f);
    SDBR_OUT(4)[i] = next;
    SDBR_OUT(3)[i] = p[i] + next;
})
SDBR_UPDATE(adam, 8, {
    const T m = FN(adam_mean)(g[i], SDBR_IN(2)[i], f), v = FN(adam_square)(g[i], SDBR_IN(3)[i], f);
    SDBR_OUT(5)[i] = m;
    SDBR_OUT(6)[i] = v;
    SDBR_OUT(4)[i] = FN(adam_of)(p[i], m, v, f);
})
SDBR_UPDATE(adam_vhat, 8, {
    const T m = FN(adam_mean)(g[i], SDBR_IN(2)[i], f), v = FN(adam_square)(g[i], SDBR_IN(3)[i], f);
    const T largest = FN(adam_largest)(SDBR_IN(4)[i], v);
    SDBR_OUT(6)[i] = m;
    SDBR_OUT(7)[i] = v;
    SDBR_OUT(8)[i] = largest;
    SDBR_OUT(5)[i] = FN(adam_of)(p[i], m, largest, f);
})
SDBR_UPDATE(rmsprop, 5, {
    const T ms = FN(rmsprop_square)(g[i], SDBR_IN(2)[i], f);
    SDBR_OUT(4)[i] = ms;
    SDBR_OUT(3)[i] = FN(rmsprop_of)(g[i], p[i], ms, f);
})
SDBR_UPDATE(weight_decay, 1, SDBR_OUT(2)[i] = FN(weight_decay_of)(g[i], p[i], f);)
SDBR_UPDATE(lasso, 1, SDBR_OUT(2)[i] = FN(lasso_of)(g[i], p[i], f);)
#undef SDBR_UPDATE

/* Gradients of any number of arrays: operands[0] and operands[1] are lists, of the addresses of g... and norm, and of
 * the integers [count, sizes...]. */
SDBR_INLINE T *FN(listed)(const sdbr_device_op *op, int64_t k) { return ((T *const *)op->operands[0])[k]; }

/* work[k] = (g * g).sum() of array k, in double: a team each. */
SDBR_INLINE void FN(clip_norm_sums_team)(sdbr_team team, const sdbr_device_op *op) {
    const int64_t *ints = (const int64_t *)op->operands[1];
    for (int64_t k = team.group; k < ints[0]; k += team.groups) {
        const T *g = FN(listed)(op, k);
        double sum = 0;
        for (int64_t i = team.rank; i < ints[1 + k]; i += team.size)
            sum += (double)g[i] * (double)g[i];
        sum = FN(strand_total)(sdbr_strand_of(team, 1), sum);
        if (team.rank == 0)
            op->work[k] = sum;
    }
}

/* norm = sqrt of their sum; g *= threshold / norm unless that is >= 1: see update/kernels.h. */
SDBR_INLINE void FN(clip_norm_team)(sdbr_team team, const sdbr_device_op *op) {
    const int64_t *ints = (const int64_t *)op->operands[1], count = ints[0];
    T total = 0;
    for (int64_t k = 0; k < count; k++)
        total += (T)op->work[k];
    const T norm = SQRT(total), rate = (T)op->floats[0] / norm;
    if (sdbr_first(team) == 0)
        *(double *)FN(listed)(op, count) = (double)norm;
    if (rate >= 1)
        return;
    for (int64_t k = 0; k < count; k++)
        for (int64_t i = sdbr_first(team); i < ints[1 + k]; i += sdbr_stride(team))
            FN(listed)(op, k)[i] *= rate;
}
