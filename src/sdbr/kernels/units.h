/* The units of kernels. Each is one header, unit_<name>.h, which defines its kernels and their names
 * in SDBR_ENTRIES; it is compiled once per SIMD level (unit.c), and again when a file that it
 * includes has changed. setup.py reads the names from here. */
#ifndef SDBR_UNITS_H
#define SDBR_UNITS_H

#define SDBR_UNITS(X) \
    X(elementwise)    \
    X(rows)           \
    X(blas)           \
    X(array)          \
    X(conv)           \
    X(recurrent)      \
    X(normalization)  \
    X(ctc)            \
    X(integer)        \
    X(pooling)

#endif
