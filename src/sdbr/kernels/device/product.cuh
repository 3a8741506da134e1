/* Matrix products, by dtype: tiles of 64 x 64 whose factors lie in scratch memory, 4 x 4 sums per thread.
 * ints: [n, m, depth, steps of a along rows and columns, the same of b, matrices, steps of a and b between them,
 *        activation, accumulate]. */
#ifndef SDBR_PRODUCT_CUH
#define SDBR_PRODUCT_CUH
enum { SDBR_TILE = 64, SDBR_TILE_DEPTH = 16, SDBR_TILE_SUMS = 4 };
enum { SDBR_END_BIAS = 1, SDBR_END_MASK = 2, SDBR_END_ADD = 4 };
enum { SDBR_ACT_NONE, SDBR_ACT_RELU, SDBR_ACT_SIGMOID, SDBR_ACT_TANH };
#endif

/* tile[k][r] of the factor whose element (r, k) lies at x[(from + r) * row + (k0 + k) * column]; 0 beyond its end. */
SDBR_INLINE void FN(load_tile)(sdbr_team team, const T *x, int64_t row, int64_t column, int64_t from, int64_t rows,
                               int64_t k0, int64_t depth, T *tile) {
    for (int64_t e = team.rank; e < SDBR_TILE * SDBR_TILE_DEPTH; e += team.size) {
        /* Neighbouring threads read neighbouring elements. */
        const int64_t k = column == 1 ? e % SDBR_TILE_DEPTH : e / SDBR_TILE;
        const int64_t r = column == 1 ? e / SDBR_TILE_DEPTH : e % SDBR_TILE;
        const int is_there = from + r < rows && k0 + k < depth;
        tile[k * SDBR_TILE + r] = is_there ? x[(from + r) * row + (k0 + k) * column] : (T)0;
    }
}

/* op(a) @ op(b), and what follows for each element; `sums`: where the sums of the rows of op(a) go as well, which lie in
 * scratch memory anyway, or NULL. */
#define SDBR_PRODUCT(name, sums_, finished) \
    SDBR_INLINE void FN(name##_team)(sdbr_team team, const sdbr_device_op *op) { \
        const int64_t *p = op->ints, n = p[0], m = p[1], depth = p[2]; \
        const int64_t down = (n + SDBR_TILE - 1) / SDBR_TILE, across = (m + SDBR_TILE - 1) / SDBR_TILE; \
        T *const row_sums = sums_; \
        T *a_tile = (T *)team.scratch, *b_tile = a_tile + SDBR_TILE * SDBR_TILE_DEPTH; \
        for (int64_t tile = team.group; tile < p[7] * down * across; tile += team.groups) { \
            const int64_t matrix = tile / (down * across), i0 = tile / across % down * SDBR_TILE, \
                          j0 = tile % across * SDBR_TILE; \
            const T *a = SDBR_IN(0) + matrix * p[8], *b = SDBR_IN(1) + matrix * p[9]; \
            for (int64_t round = 0; round < SDBR_DEVICE_THREADS; round += team.size) { \
                const int64_t at = round + team.rank, per = SDBR_TILE / SDBR_TILE_SUMS; \
                const int64_t di = at / per * SDBR_TILE_SUMS, dj = at % per * SDBR_TILE_SUMS; \
                const int is_mine = at < SDBR_DEVICE_THREADS; \
                const int adds = row_sums && is_mine && j0 == 0 && dj == 0; \
                T sums[SDBR_TILE_SUMS][SDBR_TILE_SUMS] = {{0}}, of_rows[SDBR_TILE_SUMS] = {0}; \
                for (int64_t k0 = 0; k0 < depth; k0 += SDBR_TILE_DEPTH) { \
                    SDBR_SYNC(team); \
                    FN(load_tile)(team, a, p[3], p[4], i0, n, k0, depth, a_tile); \
                    FN(load_tile)(team, b, p[6], p[5], j0, m, k0, depth, b_tile); \
                    SDBR_SYNC(team); \
                    for (int k = 0; is_mine && k < SDBR_TILE_DEPTH; k++) \
                        for (int i = 0; i < SDBR_TILE_SUMS; i++) \
                            for (int j = 0; j < SDBR_TILE_SUMS; j++) \
                                sums[i][j] += a_tile[k * SDBR_TILE + di + i] * b_tile[k * SDBR_TILE + dj + j]; \
                    for (int i = 0; adds && i < SDBR_TILE_SUMS; i++) { \
                        T of_tile = 0; /* apart: the error of a long sum grows with its length */ \
                        for (int k = 0; k < SDBR_TILE_DEPTH; k++) \
                            of_tile += a_tile[k * SDBR_TILE + di + i]; \
                        of_rows[i] += of_tile; \
                    } \
                } \
                for (int i = 0; adds && i < SDBR_TILE_SUMS; i++) \
                    if (i0 + di + i < n) \
                        row_sums[i0 + di + i] = of_rows[i]; \
                for (int i = 0; is_mine && i < SDBR_TILE_SUMS; i++) \
                    for (int j = 0; j < SDBR_TILE_SUMS; j++) { \
                        const int64_t row = i0 + di + i, column = j0 + dj + j, place = (matrix * n + row) * m + column; \
                        T v = sums[i][j]; \
                        if (row < n && column < m) { \
                            finished; \
                        } \
                    } \
            } \
        } \
    }

SDBR_INLINE T FN(activated)(int64_t activation, T v) {
    return activation == SDBR_ACT_RELU      ? FN(op_relu)(v, (T)0, (T)0)
           : activation == SDBR_ACT_SIGMOID ? FN(op_sigmoid)(v, (T)0, (T)0)
           : activation == SDBR_ACT_TANH    ? FN(op_tanh)(v, (T)0, (T)0)
                                            : v;
}

SDBR_INLINE T FN(activation_slope)(int64_t activation, T y, T v) {
    return activation == SDBR_ACT_RELU      ? FN(op_relu_grad)(y, v, (T)0, (T)0)
           : activation == SDBR_ACT_SIGMOID ? FN(op_sigmoid_grad)(y, v, (T)0, (T)0)
                                            : FN(op_tanh_grad)(y, v, (T)0, (T)0);
}

/* operands: a, b, c. */
SDBR_PRODUCT(gemm, NULL, SDBR_OUT(2)[place] = p[11] ? SDBR_OUT(2)[place] + v : v)
/* operands: a, b, c, sums of the rows of op(a). */
SDBR_PRODUCT(gemm_sums, SDBR_OUT(3), SDBR_OUT(2)[place] = v)
/* operands: x, w, y. */
SDBR_PRODUCT(linear, NULL, SDBR_OUT(2)[place] = FN(activated)(p[10], v))
/* operands: x, w, bias, y. */
SDBR_PRODUCT(linear_bias, NULL, SDBR_OUT(3)[place] = FN(activated)(p[10], v + SDBR_IN(2)[column]))
/* operands: a, b, y, c. */
SDBR_PRODUCT(gemm_mask, NULL, SDBR_OUT(3)[place] = FN(activation_slope)(p[10], SDBR_IN(2)[place], v))
#undef SDBR_PRODUCT

/* Around a product that a library makes, whose operands have to lie where they lay when it was recorded. Before it, copies
 * of up to three operands. operands: from, to, from, to, from, to; ints: the number of elements of each. */
SDBR_INLINE void FN(product_begin_team)(sdbr_team team, const sdbr_device_op *op) {
    for (int k = 0; k < 3; k++) {
        const T *from = op->ints[k] ? SDBR_IN(2 * k) : NULL;
        T *to = (T *)op->operands[2 * k + 1];
        for (int64_t e = sdbr_first(team); e < op->ints[k]; e += sdbr_stride(team))
            to[e] = from[e];
    }
}

/* Behind it, what it has not done itself. operands: its result, c, bias, y, its sums, where they go; ints: [elements, m,
 * activation, what of SDBR_END, number of sums]. */
SDBR_INLINE void FN(product_end_team)(sdbr_team team, const sdbr_device_op *op) {
    const int64_t *p = op->ints, what = p[3];
    const T *from = SDBR_IN(0), *bias = what & SDBR_END_BIAS ? SDBR_IN(2) : NULL;
    const T *y = what & SDBR_END_MASK ? SDBR_IN(3) : NULL;
    T *to = SDBR_OUT(1);
    for (int64_t e = sdbr_first(team); e < p[0]; e += sdbr_stride(team)) {
        T v = bias ? from[e] + bias[e % p[1]] : from[e];
        v = y ? FN(activation_slope)(p[2], y[e], v) : FN(activated)(p[2], v);
        to[e] = what & SDBR_END_ADD ? to[e] + v : v;
    }
    const T *sums = p[4] ? SDBR_IN(4) : NULL;
    for (int64_t e = sdbr_first(team); e < p[4]; e += sdbr_stride(team))
        SDBR_OUT(5)[e] = sums[e];
}
