/* The inner loops of casts between all dtypes but the complex ones, and of fills. */
#ifndef SDBR_CAST_H
#define SDBR_CAST_H

#include "data/cast_names.h"
#include "data/types.h"
#include "frame/nd_loop.h"

#define SDBR_CAST_INNER(a, b) \
    static void cast_inner_##a##_##b(char *const *at, const int64_t *step, int64_t n, const double *floats) { \
        (void)floats; \
        if (step[0] == sizeof(TYPE_##a) && step[1] == sizeof(TYPE_##b)) { \
            const TYPE_##a *x = (const TYPE_##a *)at[0]; \
            TYPE_##b *y = (TYPE_##b *)at[1]; \
            SDBR_IVDEP \
            for (int64_t i = 0; i < n; i++) \
                y[i] = STORE_##b(LOAD_##a(x[i])); \
        } else { \
            for (int64_t i = 0; i < n; i++) \
                *(TYPE_##b *)(at[1] + i * step[1]) = STORE_##b(LOAD_##a(*(const TYPE_##a *)(at[0] + i * step[0]))); \
        } \
    }

#define SDBR_FILL_INNER(b) \
    static void fill_inner_##b(char *const *at, const int64_t *step, int64_t n, const double *floats) { \
        const TYPE_##b v = STORE_##b(floats[0]); \
        if (step[0] == sizeof(TYPE_##b)) { \
            for (int64_t i = 0; i < n; i++) \
                ((TYPE_##b *)at[0])[i] = v; \
        } else { \
            for (int64_t i = 0; i < n; i++) \
                *(TYPE_##b *)(at[0] + i * step[0]) = v; \
        } \
    }

#endif
