/* Updates of parameters, by dtype: `name` of one parameter, ints [n]; `name_together` of any number by one rule.
 *
 * Together: operands[0] and operands[1] are lists. Of addresses: those of each parameter after one another. Of
 * integers: [parameters, pieces], then sizes and addresses of floats of the parameters, then which parameter each
 * piece is of, and where in it it begins; a piece has SDBR_PIECE elements at most. */

#define SDBR_READ(k) (((const T *)at[k])[i])
#define SDBR_WRITTEN(k) (((T *)at[k])[i])

#define SDBR_UPDATE(name, n_operands, count, ...) \
    SDBR_INLINE void FN(name##_some)(char *const *at, const double *floats, int64_t from, int64_t to, int64_t step) { \
        SDBR_ROUNDED(f, floats, count); \
        for (int64_t i = from; i < to; i += step) { \
            __VA_ARGS__ \
        } \
    } \
    SDBR_INLINE void FN(name##_team)(sdbr_team team, const sdbr_device_op *op) { \
        char *at[n_operands]; \
        for (int k = 0; k < (n_operands); k++) \
            at[k] = sdbr_at(op, k); \
        FN(name##_some)(at, op->floats, sdbr_first(team), op->ints[0], sdbr_stride(team)); \
    } \
    SDBR_INLINE void FN(name##_together_team)(sdbr_team team, const sdbr_device_op *op) { \
        char *const *lists = (char *const *)op->operands[0]; \
        const int64_t *ints = (const int64_t *)op->operands[1], parameters = ints[0], pieces = ints[1]; \
        const int64_t *sizes = ints + 2, *floats = sizes + parameters, *whose = floats + parameters, *begins = whose + pieces; \
        for (int64_t piece = team.group; piece < pieces; piece += team.groups) { \
            const int64_t k = whose[piece], begin = begins[piece]; \
            const int64_t end = sizes[k] - begin < SDBR_PIECE ? sizes[k] : begin + SDBR_PIECE; \
            FN(name##_some)(lists + k * (n_operands), (const double *)floats[k], begin + team.rank, end, team.size); \
        } \
    }

SDBR_UPDATE(sgd, 3, 1, SDBR_WRITTEN(2) = FN(sgd_of)(SDBR_READ(0), SDBR_READ(1), f);)
SDBR_UPDATE(momentum_sgd, 5, 2, {
    const T next = FN(momentum_of)(SDBR_READ(0), SDBR_READ(2), f);
    SDBR_WRITTEN(4) = next;
    SDBR_WRITTEN(3) = SDBR_READ(1) + next;
})
SDBR_UPDATE(corrected_momentum_sgd, 5, 2, {
    const T next = FN(corrected_momentum_of)(SDBR_READ(0), SDBR_READ(2), f);
    SDBR_WRITTEN(4) = next;
    SDBR_WRITTEN(3) = FN(corrected_momentum_step)(SDBR_READ(1), next, f);
})
SDBR_UPDATE(nesterov_ag, 5, 4, {
    const T next = FN(momentum_of)(SDBR_READ(0), SDBR_READ(2), f);
    SDBR_WRITTEN(4) = next;
    SDBR_WRITTEN(3) = FN(nesterov_of)(SDBR_READ(0), SDBR_READ(1), next, f);
})
SDBR_UPDATE(ada_grad, 5, 2, {
    const T h = FN(ada_grad_sum)(SDBR_READ(0), SDBR_READ(2));
    SDBR_WRITTEN(4) = h;
    SDBR_WRITTEN(3) = FN(ada_grad_of)(SDBR_READ(0), SDBR_READ(1), h, f);
})
SDBR_UPDATE(ada_delta, 7, 3, {
    const T square = FN(ada_delta_square)(SDBR_READ(0), SDBR_READ(2), f);
    const T step = FN(ada_delta_step)(SDBR_READ(0), square, SDBR_READ(3), f);
    SDBR_WRITTEN(5) = square;
    SDBR_WRITTEN(6) = FN(ada_delta_square)(step, SDBR_READ(3), f);
    SDBR_WRITTEN(4) = SDBR_READ(1) - step;
})
SDBR_UPDATE(adam, 7, 8, {
    const T m = FN(adam_mean)(SDBR_READ(0), SDBR_READ(2), f), v = FN(adam_square)(SDBR_READ(0), SDBR_READ(3), f);
    SDBR_WRITTEN(5) = m;
    SDBR_WRITTEN(6) = v;
    SDBR_WRITTEN(4) = FN(adam_of)(SDBR_READ(1), m, v, f);
})
SDBR_UPDATE(adam_vhat, 9, 8, {
    const T m = FN(adam_mean)(SDBR_READ(0), SDBR_READ(2), f), v = FN(adam_square)(SDBR_READ(0), SDBR_READ(3), f);
    const T largest = FN(adam_largest)(SDBR_READ(4), v);
    SDBR_WRITTEN(6) = m;
    SDBR_WRITTEN(7) = v;
    SDBR_WRITTEN(8) = largest;
    SDBR_WRITTEN(5) = FN(adam_of)(SDBR_READ(1), m, largest, f);
})
SDBR_UPDATE(rmsprop, 5, 5, {
    const T ms = FN(rmsprop_square)(SDBR_READ(0), SDBR_READ(2), f);
    SDBR_WRITTEN(4) = ms;
    SDBR_WRITTEN(3) = FN(rmsprop_of)(SDBR_READ(0), SDBR_READ(1), ms, f);
})
SDBR_UPDATE(rmsprop_graves, 9, 5, {
    const T square = FN(graves_square)(SDBR_READ(0), SDBR_READ(2), f), mean = FN(graves_mean)(SDBR_READ(0), SDBR_READ(3), f);
    const T step = FN(graves_delta)(SDBR_READ(0), square, mean, SDBR_READ(4), f);
    SDBR_WRITTEN(6) = square;
    SDBR_WRITTEN(7) = mean;
    SDBR_WRITTEN(8) = step;
    SDBR_WRITTEN(5) = SDBR_READ(1) + step;
})
SDBR_UPDATE(smorms3, 9, 2, {
    const T mem = SDBR_READ(2), r = 1 / (mem + 1);
    const T mean = FN(smorms3_mean)(SDBR_READ(0), SDBR_READ(3), r), square = FN(smorms3_square)(SDBR_READ(0), SDBR_READ(4), r);
    const T x = FN(smorms3_x)(mean, square, f);
    SDBR_WRITTEN(5) = FN(smorms3_of)(SDBR_READ(0), SDBR_READ(1), square, x, f);
    SDBR_WRITTEN(6) = 1 + mem * (1 - x);
    SDBR_WRITTEN(7) = mean;
    SDBR_WRITTEN(8) = square;
})
SDBR_UPDATE(msvag, 7, 7, {
    const T m = FN(msvag_mean)(SDBR_READ(0), SDBR_READ(2), f), v = FN(msvag_square)(SDBR_READ(0), SDBR_READ(3), f);
    SDBR_WRITTEN(5) = m;
    SDBR_WRITTEN(6) = v;
    SDBR_WRITTEN(4) = FN(msvag_of)(SDBR_READ(1), m, v, f);
})
SDBR_UPDATE(weight_decay, 3, 1, SDBR_WRITTEN(2) = FN(weight_decay_of)(SDBR_READ(0), SDBR_READ(1), f);)
SDBR_UPDATE(lasso, 3, 1, SDBR_WRITTEN(2) = FN(lasso_of)(SDBR_READ(0), SDBR_READ(1), f);)
SDBR_UPDATE(hard_clip, 3, 2, SDBR_WRITTEN(2) = FN(hard_clip_of)(SDBR_READ(0), f);)
SDBR_UPDATE(add_noise, 3, 0, (void)&f; SDBR_WRITTEN(2) = SDBR_READ(0) + SDBR_READ(1);)
#undef SDBR_UPDATE
#undef SDBR_READ
#undef SDBR_WRITTEN

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

/* work[k] = (x * x).sum() of operand k, the gradient and its parameter, in double: a team each. ints: [n]. */
SDBR_INLINE void FN(lars_sums_team)(sdbr_team team, const sdbr_device_op *op) {
    for (int64_t k = team.group; k < 2; k += team.groups) {
        const T *x = SDBR_IN(k);
        double sum = 0;
        for (int64_t i = team.rank; i < op->ints[0]; i += team.size)
            sum += (double)x[i] * (double)x[i];
        sum = FN(strand_total)(sdbr_strand_of(team, 1), sum);
        if (team.rank == 0)
            op->work[k] = sum;
    }
}

/* (g + decay p) rate, which makes it as long as p: see update/kernels.h. */
SDBR_INLINE void FN(lars_team)(sdbr_team team, const sdbr_device_op *op) {
    const T *g = SDBR_IN(0), *p = SDBR_IN(1);
    T *g_out = SDBR_OUT(2);
    SDBR_ROUNDED(f, op->floats, 3);
    const T rate = FN(lars_rate)(SQRT((T)op->work[1]), SQRT((T)op->work[0]), f);
    for (int64_t i = sdbr_first(team); i < op->ints[0]; i += sdbr_stride(team))
        g_out[i] = FN(lars_of)(g[i], p[i], rate, f);
}

/* work[k] = how many elements of array k are not finite: a team each. */
SDBR_INLINE void FN(all_finite_counts_team)(sdbr_team team, const sdbr_device_op *op) {
    const int64_t *ints = (const int64_t *)op->operands[1];
    for (int64_t k = team.group; k < ints[0]; k += team.groups) {
        const T *g = FN(listed)(op, k);
        double count = 0;
        for (int64_t i = team.rank; i < ints[1 + k]; i += team.size)
            count += FN(is_not_finite)(g[i]);
        count = FN(strand_total)(sdbr_strand_of(team, 1), count);
        if (team.rank == 0)
            op->work[k] = count;
    }
}

SDBR_INLINE void FN(all_finite_team)(sdbr_team team, const sdbr_device_op *op) {
    const int64_t *ints = (const int64_t *)op->operands[1], count = ints[0];
    double others = 0;
    for (int64_t k = 0; k < count; k++)
        others += op->work[k];
    if (sdbr_first(team) == 0)
        *(double *)FN(listed)(op, count) = others == 0;
}
