/* The units of kernels, one per family of ops. Each is one header, <family>/unit.h, which defines its
 * kernels and their names in SDBR_ENTRIES; it is compiled once per SIMD level (unit.c), and again when
 * a file that it includes has changed. setup.py reads the names from here. */
#ifndef SDBR_UNITS_H
#define SDBR_UNITS_H

#define SDBR_UNITS(X) \
    X(fused) \
    X(elementwise) \
    X(special) \
    X(product) \
    X(convolution) \
    X(normalization) \
    X(reduction) \
    X(loss) \
    X(pooling) \
    X(array) \
    X(recurrent) \
    X(data) \
    X(update) \
    X(random) \
    X(ctc) \
    X(integer) \
    X(control)

#endif
