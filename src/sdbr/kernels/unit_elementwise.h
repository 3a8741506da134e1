/* Elementwise ops, copies, casts and fills. */
#include "math_f4.h"
#include "math_f8.h"
#include "special_f4.h"
#include "special_f8.h"
#include "nd_loop.h"
#include "copy.h"
#include "cast_names.h"
#include "elementwise_names.h"
#include "fused_load.h"

#define SDBR_BY_DTYPE "elementwise.h"
#include "by_dtype.h"
#define SDBR_BY_DTYPE "fused.h"
#include "by_dtype.h"

#define SDBR_ELEMENTWISE_ENTRY(name, count) SDBR_ENTRY(name##_contiguous) SDBR_ENTRY(name##_strided)
#define SDBR_ENTRIES \
    SDBR_UNARY(SDBR_ELEMENTWISE_ENTRY) \
    SDBR_BINARY(SDBR_ELEMENTWISE_ENTRY) \
    SDBR_TERNARY(SDBR_ELEMENTWISE_ENTRY) \
    SDBR_CHOSEN(SDBR_ELEMENTWISE_ENTRY) \
    SDBR_ENTRY(fused) \
    SDBR_COPY_ENTRIES \
    SDBR_CAST_ENTRIES
