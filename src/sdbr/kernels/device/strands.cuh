/* Several rows of a matrix at once, each by a few threads of a team: a strand. By dtype. */

/* Row `lane` of `lanes` that the team has at a time; thread `phase` of `phases` of that row. A thread that is left
 * over has a phase that is none. */
#ifndef SDBR_STRANDS
#define SDBR_STRANDS
typedef struct sdbr_strand {
    sdbr_team team;
    int64_t lane, lanes, phase, phases;
} sdbr_strand;

SDBR_INLINE sdbr_strand sdbr_strand_of(sdbr_team team, int64_t lanes) {
    if (lanes > team.size)
        lanes = team.size;
    const sdbr_strand strand = {team, team.rank % lanes, lanes, team.rank / lanes, team.size / lanes};
    return strand;
}
#endif

/* The same number for all threads of a strand, in the same order of operations whatever came when. All threads of
 * the team have to ask. */
#define SDBR_OF_STRAND(name, TYPE, combined) \
    SDBR_INLINE TYPE FN(name)(sdbr_strand s, TYPE v) { \
        TYPE *scratch = (TYPE *)s.team.scratch; \
        scratch[s.team.rank] = v; \
        SDBR_SYNC(s.team); \
        for (int64_t width = s.phases, half; width > 1; width = half) { \
            half = (width + 1) / 2; \
            if (s.phase + half < width) { \
                const TYPE a = scratch[s.team.rank], b = scratch[s.team.rank + half * s.lanes]; \
                scratch[s.team.rank] = combined; \
            } \
            SDBR_SYNC(s.team); \
        } \
        const TYPE result = scratch[s.lane]; \
        SDBR_SYNC(s.team); \
        return result; \
    }

SDBR_OF_STRAND(strand_sum, T, a + b)
SDBR_OF_STRAND(strand_max, T, FN(op_maximum)(a, b, (T)0, (T)0))
SDBR_OF_STRAND(strand_min, T, FN(op_minimum)(a, b, (T)0, (T)0))
SDBR_OF_STRAND(strand_total, double, a + b)
SDBR_OF_STRAND(strand_first, double, a < b ? a : b)
#undef SDBR_OF_STRAND

/* Sums over all threads of all teams, in the same order each time; of `count` numbers of each. True for the threads of the
 * last team that comes here: they alone get them. op->work holds 1 + count * teams doubles. */
SDBR_INLINE int FN(totals)(sdbr_team team, const sdbr_device_op *op, double *sums, int count) {
    const sdbr_strand all = sdbr_strand_of(team, 1);
    for (int j = 0; j < count; j++) {
        sums[j] = FN(strand_total)(all, sums[j]);
        if (team.rank == 0 && team.groups > 1)
            op->work[1 + team.group * count + j] = sums[j];
    }
    if (!sdbr_is_last(team, op))
        return 0;
    for (int j = 0; j < count && team.groups > 1; j++) {
        double sum = 0;
        for (int64_t group = team.rank; group < team.groups; group += team.size)
            sum += ((const volatile double *)op->work)[1 + group * count + j];
        sums[j] = FN(strand_total)(all, sum);
    }
    return 1;
}

/* Where thread and row are in x[outer, n, inner]: rows `row` of outer * inner, of which the element k lies at
 * first + k * inner. Every thread of a team comes through the same number of times. */
#define SDBR_EACH_ROW(strand, rows) \
    for (int64_t base = (strand).team.group * (strand).lanes; base < (rows); \
         base += (strand).team.groups * (strand).lanes)
#define SDBR_ROW_OF(strand, rows, inner, n) \
    const int64_t row = base + (strand).lane; \
    const int is_row = row < (rows) && (strand).phase < (strand).phases; \
    const int64_t first = is_row ? row / (inner) * (n) * (inner) + row % (inner) : 0, \
                  from = is_row ? (strand).phase : (n); \
    (void)first, (void)from
