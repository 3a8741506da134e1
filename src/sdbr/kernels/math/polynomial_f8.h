/* Polynomials whose coefficients stand in a table, the constant first. */
#ifndef SDBR_POLYNOMIAL_F8_H
#define SDBR_POLYNOMIAL_F8_H

#include "frame/template.h"

SDBR_INLINE double sdbr_polynomial(const double *coefficients, int n, double t) {
    double sum = coefficients[n - 1];
    for (int k = n - 2; k >= 0; k--)
        sum = sum * t + coefficients[k];
    return sum;
}

#define SDBR_POLYNOMIAL(table, t) sdbr_polynomial(table, (int)(sizeof table / sizeof *table), t)

#endif
