/* Sums of rows that belong to one place, by dtype; see index.h. The rows of a place are added in
 * their order, whatever the number of threads or the instruction set. */

/* ints as in index.h, then the number of elements of gx to be set to zero, or -1;
 * operands: gy, t..., gx. */
static int FN(scatter_add)(const sdbr_op *op) {
    const int64_t outer = op->ints[0], m = op->ints[1], inner = op->ints[2], k = op->ints[3];
    const int64_t row_step = op->ints[6], step = op->ints[7], zeros = op->ints[SDBR_INDEX_HEAD + 3 * k];
    const T *gy = (const T *)op->operands[0];
    char *gx = op->operands[1 + k];
    char *t[SDBR_MAX_DIM];
    int64_t at[SDBR_PLACES];
    const int status = sdbr_own_places(op, op->operands + 1, t);
    if (status != SDBR_OK)
        return status;
    if (zeros > 0)
        memset(gx, 0, (size_t)zeros * sizeof(T));
    for (int64_t first = 0; first < m; first += SDBR_PLACES) {
        const int64_t count = m - first < SDBR_PLACES ? m - first : SDBR_PLACES;
        sdbr_places(op, t, first, count, at);
        for (int64_t o = 0; o < outer; o++) {
            if (inner == 1) {
                const T *row = gy + o * m + first;
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
