/* Transposes of square blocks of one dtype, in registers: SDBR_BLOCK rows of as many elements.
 * Pairs of elements are interleaved, then pairs of pairs, then halves of vectors. */

#define BYTES (SDBR_GEMM_BYTES > 32 ? 32 : SDBR_GEMM_BYTES)
#define LANES ((int)(BYTES / sizeof(T)))

typedef T FN(block_vector) __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));
typedef INT FN(block_index) __attribute__((vector_size(BYTES)));
#define V FN(block_vector)
#define I FN(block_index)

/* out[j * ldo + i] = b[i * ldb + j] for i < rows, and 0 for i from `rows` to LANES */
SDBR_INLINE void FN(transpose)(const T *b, int64_t ldb, int rows, T *out, int64_t ldo) {
    V r[LANES], s[LANES];
    SDBR_UNROLL for (int i = 0; i < LANES; ++i)
        r[i] = i < rows ? *(const V *)(b + i * ldb) : (V){0};
#if SDBR_FLOATS && SDBR_GEMM_BYTES >= 32
    SDBR_UNROLL for (int i = 0; i < 8; i += 2) {
        s[i] = SDBR_SHUFFLE(r[i], r[i + 1], I, 0, 8, 1, 9, 4, 12, 5, 13);
        s[i + 1] = SDBR_SHUFFLE(r[i], r[i + 1], I, 2, 10, 3, 11, 6, 14, 7, 15);
    }
    SDBR_UNROLL for (int i = 0; i < 8; i += 4) {
        r[i] = SDBR_SHUFFLE(s[i], s[i + 2], I, 0, 1, 8, 9, 4, 5, 12, 13);
        r[i + 1] = SDBR_SHUFFLE(s[i], s[i + 2], I, 2, 3, 10, 11, 6, 7, 14, 15);
        r[i + 2] = SDBR_SHUFFLE(s[i + 1], s[i + 3], I, 0, 1, 8, 9, 4, 5, 12, 13);
        r[i + 3] = SDBR_SHUFFLE(s[i + 1], s[i + 3], I, 2, 3, 10, 11, 6, 7, 14, 15);
    }
    SDBR_UNROLL for (int i = 0; i < 4; ++i) {
        s[i] = SDBR_SHUFFLE(r[i], r[i + 4], I, 0, 1, 2, 3, 8, 9, 10, 11);
        s[i + 4] = SDBR_SHUFFLE(r[i], r[i + 4], I, 4, 5, 6, 7, 12, 13, 14, 15);
    }
#elif SDBR_FLOATS
    SDBR_UNROLL for (int i = 0; i < 4; i += 2) {
        s[i] = SDBR_SHUFFLE(r[i], r[i + 1], I, 0, 4, 1, 5);
        s[i + 1] = SDBR_SHUFFLE(r[i], r[i + 1], I, 2, 6, 3, 7);
    }
    r[0] = SDBR_SHUFFLE(s[0], s[2], I, 0, 1, 4, 5);
    r[1] = SDBR_SHUFFLE(s[0], s[2], I, 2, 3, 6, 7);
    r[2] = SDBR_SHUFFLE(s[1], s[3], I, 0, 1, 4, 5);
    r[3] = SDBR_SHUFFLE(s[1], s[3], I, 2, 3, 6, 7);
    memcpy(s, r, sizeof s);
#elif SDBR_GEMM_BYTES >= 32
    SDBR_UNROLL for (int i = 0; i < 4; i += 2) {
        s[i] = SDBR_SHUFFLE(r[i], r[i + 1], I, 0, 4, 2, 6);
        s[i + 1] = SDBR_SHUFFLE(r[i], r[i + 1], I, 1, 5, 3, 7);
    }
    SDBR_UNROLL for (int i = 0; i < 2; ++i) {
        r[i] = SDBR_SHUFFLE(s[i], s[i + 2], I, 0, 1, 4, 5);
        r[i + 2] = SDBR_SHUFFLE(s[i], s[i + 2], I, 2, 3, 6, 7);
    }
    memcpy(s, r, sizeof s);
#else
    s[0] = SDBR_SHUFFLE(r[0], r[1], I, 0, 2);
    s[1] = SDBR_SHUFFLE(r[0], r[1], I, 1, 3);
#endif
    SDBR_UNROLL for (int i = 0; i < LANES; ++i)
        *(V *)(out + i * ldo) = s[i];
}

/* panel[k, j] = b[k + j * ldb] for j < columns, else 0; panel[depth, width], width a multiple of LANES */
__attribute__((unused)) static void FN(pack_columns)(T *panel, int width, const T *b, int64_t ldb, int64_t depth, int columns) {
    for (int j = 0; j < width; j += LANES) {
        const T *from = b + j * ldb;
        const int rows = columns - j;
        int64_t k = 0;
        if (rows >= LANES)
            for (; k + LANES <= depth; k += LANES)
                FN(transpose)(from + k, ldb, LANES, panel + k * width + j, width);
        else
            for (; k + LANES <= depth; k += LANES)
                FN(transpose)(from + k, ldb, rows, panel + k * width + j, width);
        for (; k < depth; ++k)
            for (int i = 0; i < LANES; ++i)
                panel[k * width + j + i] = i < rows ? from[k + i * ldb] : (T)0;
    }
}

#undef BYTES
#undef LANES
#undef V
#undef I
