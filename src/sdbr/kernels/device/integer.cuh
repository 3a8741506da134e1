/* Comparisons, arithmetic of integers and truth values, and how many are true; see integer/kernels.h. */
#ifndef SDBR_DEVICE_INTEGER_CUH
#define SDBR_DEVICE_INTEGER_CUH

#include "device/data.cuh"

#define SDBR_IS_eq(a, b) ((a) == (b))
#define SDBR_IS_ne(a, b) ((a) != (b))
#define SDBR_IS_lt(a, b) ((a) < (b))
#define SDBR_IS_le(a, b) ((a) <= (b))
#define SDBR_IS_gt(a, b) ((a) > (b))
#define SDBR_IS_ge(a, b) ((a) >= (b))
#define SDBR_COMPARE(kind, a) \
    SDBR_EACH_PLACE(compare_##kind##_##a, 3, { \
        const TYPE_##a x = *(const TYPE_##a *)at[0], y = *(const TYPE_##a *)at[1]; \
        *(uint8_t *)at[2] = (uint8_t)SDBR_IS_##kind(x, y); \
    })

/* Unsigned, because signed numbers may not overflow. */
#define SDBR_MADE_add(a, b) ((uint64_t)(a) + (uint64_t)(b))
#define SDBR_MADE_sub(a, b) ((uint64_t)(a) - (uint64_t)(b))
#define SDBR_MADE_mul(a, b) ((uint64_t)(a) * (uint64_t)(b))
#define SDBR_MADE_max(a, b) ((a) > (b) ? (a) : (b))
#define SDBR_MADE_min(a, b) ((a) < (b) ? (a) : (b))
#define SDBR_MADE_and(a, b) ((a) & (b))
#define SDBR_MADE_or(a, b) ((a) | (b))
#define SDBR_MADE_xor(a, b) ((a) ^ (b))
#define SDBR_WHOLE_i4 int32_t
#define SDBR_WHOLE_i8 int64_t
#define SDBR_WHOLE_b1 uint8_t
#define SDBR_TRUTH_i4(a) (a)
#define SDBR_TRUTH_i8(a) (a)
#define SDBR_TRUTH_b1(a) ((a) != 0)
#define SDBR_INTEGER(kind, a) \
    SDBR_EACH_PLACE(integer_##kind##_##a, 3, { \
        const SDBR_WHOLE_##a x = SDBR_TRUTH_##a(*(const SDBR_WHOLE_##a *)at[0]); \
        const SDBR_WHOLE_##a y = SDBR_TRUTH_##a(*(const SDBR_WHOLE_##a *)at[1]); \
        *(SDBR_WHOLE_##a *)at[2] = (SDBR_WHOLE_##a)SDBR_MADE_##kind(x, y); \
    })

/* ints: [n]; operands: x side by side, y. One team. */
SDBR_INLINE void count_b1_team(sdbr_team team, const sdbr_device_op *op) {
    const uint8_t *x = (const uint8_t *)sdbr_at(op, 0);
    double found = 0;
    for (int64_t i = team.rank; i < op->ints[0]; i += team.size)
        found += x[i] != 0;
    team.scratch[team.rank] = found;
    SDBR_SYNC(team);
    if (team.rank == 0) {
        for (int64_t k = 1; k < team.size; k++)
            found += team.scratch[k];
        *(double *)sdbr_at(op, 1) = found;
    }
    SDBR_SYNC(team);
}
#define SDBR_COUNT(a) SDBR_KERNEL(count_##a, count_##a##_team)

#endif
