/* Comparisons, and arithmetic of integers and truth values, over any strides; how many are true. */
#include "integer/kernels.h"

#define SDBR_COMPARE_ENTRY(name, dtype, type, expression) {"compare_" #name "_" #dtype, compare_##name##_##dtype},
#define SDBR_INTEGER_ENTRY(name, dtype, type, expression) {"integer_" #name "_" #dtype, integer_##name##_##dtype},

#define SDBR_ENTRIES \
    SDBR_COMPARE_KINDS(SDBR_COMPARE_ENTRY) \
    SDBR_INTEGER_KINDS(SDBR_INTEGER_ENTRY) \
    {"count_b1", count_b1},
