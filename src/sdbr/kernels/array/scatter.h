/* Sums of rows that belong to one place, by dtype; see index.h. The rows of a place are added in
 * their order, whatever the number of threads or the instruction set. */

/* Rows of one element each, as runs of places that follow one another; each run has a place once. */
SDBR_INLINE void FN(add_runs)(const T *row, char *gx, const int64_t *at, const int64_t *begins, int64_t n) {
    for (int64_t r = 0; r < n; r++) {
        const int64_t begin = begins[r], length = begins[r + 1] - begin;
        if (at[begin] == SDBR_IGNORED)
            continue;
        T *sum = (T *)(gx + at[begin]);
        SDBR_IVDEP
        for (int64_t i = 0; i < length; i++)
            sum[i] += row[begin + i];
    }
}

/* ints as in index.h, then the number of elements of gx to be set to zero, or -1;
 * operands: gy, t..., gx. */
static int FN(scatter_add)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], m = op->ints[1], inner = op->ints[2], k = op->ints[3];
    const int64_t row_step = op->ints[6], step = op->ints[7], zeros = op->ints[SDBR_INDEX_HEAD + 3 * k];
    const T *gy = (const T *)op->operands[0];
    char *gx = op->operands[1 + k];
    char *t[SDBR_MAX_DIM];
    int64_t at[SDBR_PLACES], begins[SDBR_PLACES + 1];
    const int status = sdbr_own_places(op, op->operands + 1, t);
    if (status != SDBR_OK)
        return status;
    if (zeros > 0)
        memset(gx, 0, (size_t)zeros * sizeof(T));
    for (int64_t first = 0; first < m; first += SDBR_PLACES) {
        const int64_t count = m - first < SDBR_PLACES ? m - first : SDBR_PLACES;
        sdbr_places(op, t, first, count, at);
        const int64_t runs = inner == 1 ? sdbr_runs(at, count, sizeof(T), begins) : 0;
        for (int64_t o = 0; o < outer; o++) {
            if (inner == 1) {
                const T *row = gy + o * m + first;
                if (8 * runs <= count) {
                    FN(add_runs)(row, gx + o * row_step, at, begins, runs);
                    continue;
                }
                for (int64_t j = 0; j < count; j++)
                    if (at[j] != SDBR_IGNORED)
                        *(T *)(gx + o * row_step + at[j]) += row[j];
                continue;
            }
            for (int64_t j = 0; j < count; j++) {
                const T *row = gy + (o * m + first + j) * inner;
                if (at[j] == SDBR_IGNORED)
                    continue;
                char *place = gx + o * row_step + at[j];
                if (step == (int64_t)sizeof(T)) {
                    T *sum = (T *)place;
                    SDBR_IVDEP
                    for (int64_t i = 0; i < inner; i++)
                        sum[i] += row[i];
                } else {
                    for (int64_t i = 0; i < inner; i++)
                        *(T *)(place + i * step) += row[i];
                }
            }
        }
    }
    return SDBR_OK;
}
