/* Matrix products, for one dtype. */

/* y = act(y) where the tiles have not done it: sigmoid and tanh */
static void FN(activate)(int activation, T *y, int64_t size) {
    if (activation == SDBR_SIGMOID) {
        SDBR_IVDEP
        for (int64_t i = 0; i < size; ++i)
            y[i] = FN(sdbr_sigmoid)(y[i]);
    } else if (activation == SDBR_TANH) {
        SDBR_IVDEP
        for (int64_t i = 0; i < size; ++i)
            y[i] = FN(sdbr_tanh)(y[i]);
    }
}

/* c = op(a) @ op(b) + (accumulate ? c : 0) by BLAS, which sees the transposes of row-major arrays:
 * c.T = op(b).T @ op(a).T. Its integers may have 32 or 64 bits; a little-endian int64 is both. */
static void FN(call_blas)(const sdbr_runtime *runtime, int64_t n, int64_t m, int64_t depth, const T *a, int trans_a,
                          const T *b, int trans_b, T *c, int accumulate) {
    char flag_a = trans_a ? 'T' : 'N';
    char flag_b = trans_b ? 'T' : 'N';
    int64_t lda = trans_a ? n : depth;
    int64_t ldb = trans_b ? depth : m;
    int64_t ldc = m;
    T one = 1;
    T beta = accumulate ? 1 : 0;
    runtime->SDBR_GEMM(&flag_b, &flag_a, (int *)&m, (int *)&n, (int *)&depth, &one, (T *)(uintptr_t)b, (int *)&ldb,
                       (T *)(uintptr_t)a, (int *)&lda, &beta, c, (int *)&ldc);
}

/* --- linear: y = act(x @ w.T + b); ints: n, m, k, activation, has bias ------------------------- */
#define SDBR_LINEAR                                                                                  \
    const int64_t n = op->ints[0], m = op->ints[1], depth = op->ints[2];                             \
    const int activation = (int)op->ints[3];                                                         \
    const int has_bias = (int)op->ints[4];                                                           \
    const T *x = (const T *)op->operands[0];                                                         \
    const T *w = (const T *)op->operands[1];                                                         \
    const T *bias = has_bias ? (const T *)op->operands[2] : NULL;                                    \
    T *y = (T *)op->operands[2 + has_bias];

static int FN(linear)(const sdbr_op *op) {
    SDBR_LINEAR
    const FN(epilogue) e = {bias, NULL, 0, 0, 0, activation == SDBR_RELU};
    FN(product)(n, m, depth, x, depth, 1, w, depth, 1, y, &e);
    FN(activate)(activation, y, n * m);
    return SDBR_OK;
}

/* y = act(y + b) */
static void FN(add_bias)(T *y, const T *bias, int relu, int64_t n, int64_t m) {
    for (int64_t i = 0; i < n; ++i, y += m) {
        if (bias != NULL && relu) {
            SDBR_IVDEP
            for (int64_t j = 0; j < m; ++j) {
                T value = y[j] + bias[j];
                y[j] = value < 0 ? (T)0 : value;
            }
        } else if (bias != NULL) {
            SDBR_IVDEP
            for (int64_t j = 0; j < m; ++j)
                y[j] += bias[j];
        } else if (relu) {
            SDBR_IVDEP
            for (int64_t j = 0; j < m; ++j)
                y[j] = y[j] < 0 ? (T)0 : y[j];
        }
    }
}

static int FN(linear_blas)(const sdbr_op *op) {
    SDBR_LINEAR
    FN(call_blas)(op->runtime, n, m, depth, x, 0, w, 1, y, 0);
    FN(add_bias)(y, bias, activation == SDBR_RELU, n, m);
    FN(activate)(activation, y, n * m);
    return SDBR_OK;
}

/* Of a long one. */
static __attribute__((noinline)) int FN(linear_long_row)(const sdbr_op *op) {
    SDBR_LINEAR
    (void)n;
    FN(long_dots)(m, x, w, depth, bias, activation == SDBR_RELU, y);
    if (activation > SDBR_RELU)
        FN(activate)(activation, y, m);
    return SDBR_OK;
}

/* One vector: a dot product per row of w, four rows at a time. */
static int FN(linear_row)(const sdbr_op *op) {
    SDBR_LINEAR
    (void)n;
    if (depth > VECTOR_STRETCH)
        return FN(linear_long_row)(op);
    const int relu = activation == SDBR_RELU;
    int64_t j = 0;
    for (; j + 4 <= m; j += 4)
        FN(four_dots)(x, w + j * depth, depth, depth, bias == NULL ? NULL : bias + j, relu, y + j);
    for (; j < m; ++j)
        y[j] = FN(one_dot)(x, w + j * depth, depth, bias == NULL ? NULL : bias + j, relu);
    if (activation > SDBR_RELU)
        FN(activate)(activation, y, m);
    return SDBR_OK;
}
#undef SDBR_LINEAR

/* --- gemm: c = op(a) @ op(b) + (accumulate ? c : 0); ints: n, m, k, trans_a, trans_b, accumulate, lda */
#define SDBR_PRODUCT                                                                                 \
    const int64_t n = op->ints[0], m = op->ints[1], depth = op->ints[2];                             \
    const int trans_a = (int)op->ints[3], trans_b = (int)op->ints[4];                                \
    const T *a = (const T *)op->operands[0];                                                         \
    const T *b = (const T *)op->operands[1];                                                         \
    T *c = (T *)op->operands[2];

static int FN(gemm)(const sdbr_op *op) {
    SDBR_PRODUCT
    const FN(epilogue) e = {NULL, NULL, 0, 0, (int)op->ints[5], 0};
    const int64_t lda = op->ints[6];
    FN(product)(n, m, depth, a, trans_a ? 1 : lda, trans_a ? lda : 1, b, trans_b ? depth : m, trans_b, c, &e);
    return SDBR_OK;
}

static int FN(gemm_blas)(const sdbr_op *op) {
    SDBR_PRODUCT
    FN(call_blas)(op->runtime, n, m, depth, a, trans_a, b, trans_b, c, (int)op->ints[5]);
    return SDBR_OK;
}

/* One row times a matrix. */
static int FN(gemm_row)(const sdbr_op *op) {
    SDBR_PRODUCT
    (void)n, (void)trans_a, (void)trans_b;
    const FN(epilogue) e = {NULL, NULL, 0, 0, (int)op->ints[5], 0};
    FN(row_product)(m, depth, a, b, c, &e);
    return SDBR_OK;
}

/* Inner dimension 1: c[i, j] = a[i] * b[j] */
static int FN(gemm_outer)(const sdbr_op *op) {
    SDBR_PRODUCT
    (void)depth, (void)trans_a, (void)trans_b;
    FN(outer)(n, m, a, b, c, (int)op->ints[5]);
    return SDBR_OK;
}

/* --- batch_matmul: c[i] = op(a[i]) @ op(b[i]); ints as gemm, then the number of matrices --------- */
static int FN(batch_matmul)(const sdbr_op *op) {
    SDBR_PRODUCT
    const FN(epilogue) e = {NULL, NULL, 0, 0, 0, 0};
    const int64_t row_step = trans_a ? 1 : depth, a_step = trans_a ? n : 1, ldb = trans_b ? depth : m;
    const int small = FN(is_small)(n, m, depth);
    for (int64_t i = 0; i < op->ints[6]; ++i, a += n * depth, b += m * depth, c += n * m)
        if (small)
            FN(small_product)(n, m, depth, a, row_step, a_step, b, ldb, trans_b, c);
        else
            FN(product)(n, m, depth, a, row_step, a_step, b, ldb, trans_b, c, &e);
    return SDBR_OK;
}

static int FN(batch_matmul_blas)(const sdbr_op *op) {
    SDBR_PRODUCT
    for (int64_t i = 0; i < op->ints[6]; ++i)
        FN(call_blas)(op->runtime, n, m, depth, a + i * n * depth, trans_a, b + i * m * depth, trans_b, c + i * n * m,
                      0);
    return SDBR_OK;
}
#undef SDBR_PRODUCT

/* --- gemm_mask: c = (a @ b) * act'(y); ints: n, m, k, activation --------------------------------- */
#define SDBR_MASKED                                                                                  \
    const int64_t n = op->ints[0], m = op->ints[1], depth = op->ints[2];                             \
    const T *a = (const T *)op->operands[0];                                                         \
    const T *b = (const T *)op->operands[1];                                                         \
    const T *y = (const T *)op->operands[2];                                                         \
    T *c = (T *)op->operands[3];                                                                     \
    const FN(epilogue) e = {NULL, y, m, (int)op->ints[3], 0, 0};

static int FN(gemm_mask)(const sdbr_op *op) {
    SDBR_MASKED
    FN(product)(n, m, depth, a, depth, 1, b, m, 0, c, &e);
    return SDBR_OK;
}

static int FN(gemm_mask_row)(const sdbr_op *op) {
    SDBR_MASKED
    (void)n;
    FN(row_product)(m, depth, a, b, c, &e);
    return SDBR_OK;
}

static int FN(gemm_mask_blas)(const sdbr_op *op) {
    SDBR_MASKED
    FN(call_blas)(op->runtime, n, m, depth, a, 0, b, 0, c, 0);
    if (e.masked == SDBR_RELU) {
        SDBR_IVDEP
        for (int64_t i = 0; i < n * m; ++i)
            c[i] *= (T)(y[i] > 0);
    } else if (e.masked == SDBR_SIGMOID) {
        SDBR_IVDEP
        for (int64_t i = 0; i < n * m; ++i)
            c[i] = c[i] * y[i] * ((T)1 - y[i]);
    } else {
        SDBR_IVDEP
        for (int64_t i = 0; i < n * m; ++i)
            c[i] = c[i] * ((T)1 - y[i] * y[i]);
    }
    return SDBR_OK;
}
#undef SDBR_MASKED
#undef VECTOR_STRETCH
