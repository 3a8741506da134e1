/* Logarithm of the gamma function, and its first two derivatives, digamma and trigamma.
 *
 * Polynomials where arguments are small, interpolated at Chebyshev nodes in 60 digits; asymptotic
 * series where they are large (DLMF 5.11.1, 5.11.2, 5.15.8); below 0 the reflection formulas (5.5.3,
 * 5.5.4, 5.15.6). Zeros at positive arguments, and digamma's first one below 0, are divided out, so
 * that results next to them keep their digits. What is returned at poles is SciPy's choice. */
#ifndef SDBR_GAMMA_F8_H
#define SDBR_GAMMA_F8_H

#include "math/polynomial_f8.h"

/* lgamma(2 + t) / t for |t| <= 1/2. Within 3.0e-19 of it. */
SDBR_TABLE double sdbr_lgamma_near_2[] = {
    0.42278433509846713, 0.3224670334241132, -0.06735230105319814, 0.02058080842778457, -0.0073855510286681535,
    0.002890510330738737, -0.0011927539120010226, 0.0005096695248853096, -0.00022315475074520367,
    9.945750909889392e-05, -4.4926351103833334e-05, 2.050726741605779e-05, -9.438458716242811e-06,
    4.374374916915131e-06, -2.0449201467015115e-06, 9.578663334114758e-07, -4.303558760359961e-07,
    2.0304806751615227e-07, -1.3412819758517287e-07, 6.379047507619774e-08,
};

/* digamma(x) / (x - its root) for x = 3/2 + t from 1 to 2. Within 1.6e-17 of it. */
SDBR_TABLE double sdbr_digamma_1_2[] = {
    0.951055876031833, -0.4236274212814605, 0.2405424842407742, -0.14840492305390884, 0.09498872445494122,
    -0.061922133273064534, 0.04076083381242074, -0.02697579675613825, 0.0179072524394512, -0.011908218001568644,
    0.007926944646403797, -0.005279964873257405, 0.003519006401502276, -0.002345267632540769,
    0.0015566317474486838, -0.0010376374098418604, 0.0007233266279287554, -0.0004821990530566789,
    0.0002272331660987376, -0.00015148586836773365, 0.00025968482126430747, -0.00017312261802727394,
};

/* digamma(x) for x = 2.5 + t from 2 to 3. Within 2.8e-18 of it. */
SDBR_TABLE double sdbr_digamma_2_3[] = {
    0.7031566406452432, 0.49035775610023485, -0.11810202582086309, 0.03731764146954176, -0.013073166646180193,
    0.004821409821419739, -0.0018305640355441625, 0.0007073881640957325, -0.00027643930999581804,
    0.00010882586435206692, -4.3052048513574485e-05, 1.708891125596372e-05, -6.803232576993842e-06,
    2.7109965480846823e-06, -1.0640705254157975e-06, 4.2481223325063033e-07, -2.0687583795242883e-07,
    8.267815845287522e-08,
};

/* digamma(x) for x = 4.0 + t from 3 to 5. Within 6.9e-18 of it. */
SDBR_TABLE double sdbr_digamma_3_5[] = {
    1.2561176684318005, 0.2838229557371154, -0.04001986612255727, 0.0074775546987871, -0.0015625288059200166,
    0.00034631987206129757, -7.953001111891119e-05, 1.869040691159814e-05, -4.462562468110658e-06,
    1.0775432679299517e-06, -2.623256628119979e-07, 6.424367400905269e-08, -1.580755579512525e-08,
    3.9160835905702455e-09, -9.695641778270347e-10, 2.2871236445080004e-10, -5.682314715895993e-11,
    2.005335559827323e-11, -4.996423977487519e-12,
};

/* digamma(x) for x = 7.5 + t from 5 to 10. Within 4.0e-18 of it. */
SDBR_TABLE double sdbr_digamma_5_10[] = {
    1.9467574842460869, 0.1426158966967038, -0.010152626268322177, 0.0009620727760964282,
    -0.00010239512455802061, 1.160589713350142e-05, -1.368098361071483e-06, 1.656199732871011e-07,
    -2.04361010897858e-08, 2.5578269870764836e-09, -3.236670844441009e-10, 4.1311474315628685e-11,
    -5.310429244341582e-12, 6.863308165957025e-13, -8.878020012238059e-14, 1.1570492957719404e-14,
    -1.5765286757477668e-15, 2.0677111357002388e-16, -1.9581405546434084e-17, 2.572705638539908e-18,
    -8.505600958241323e-19, 1.1248458312407913e-19,
};

/* (digamma(2 + x) - digamma(2 + r)) / (x - r) for x = t - 1/2 from -3/4 to -1/4, r the root there.
 * Within 6.1e-18 of it. */
SDBR_TABLE double sdbr_digamma_below_0[] = {
    0.9364981173471884, -0.4153596301219437, 0.23544111168043486, -0.14513955764182265, 0.09286001222018299,
    -0.060520867845254116, 0.03983345977413702, -0.02636017836864313, 0.0174978347520529, -0.011635677804910937,
    0.007746506538110367, -0.0051597363607123825, 0.003418721735574092, -0.0022784217519510003,
    0.0017084547999386681, -0.0011388496626434253,
};

#define SDBR_PI 3.14159265358979323846

/* x less the nearest integer, without rounding. */
SDBR_INLINE double sdbr_from_integer(double x) { return x - nearbyint(x); }

/* Stirling's series for x >= 8. */
SDBR_HELPER double sdbr_lgamma_large_f8(double x) {
    SDBR_TABLE double series[] = {
        1.0 / 12,      -1.0 / 360, 1.0 / 1260,     -1.0 / 1680,         1.0 / 1188,
        -691.0 / 360360, 1.0 / 156,  -3617.0 / 122400, 43867.0 / 244188, -174611.0 / 125400,
    };
    const double z = 1 / x;
    return (x - 0.5) * (log(x) - 1) + (0.41893853320467274178 + SDBR_POLYNOMIAL(series, z * z) * z);
}

SDBR_HELPER double sdbr_lgamma_positive_f8(double x) {
    if (x >= 8)
        return sdbr_lgamma_large_f8(x);
    if (1 / x == (double)INFINITY)
        return 1 / x; /* SciPy's, too */
    if (x < 0.5) /* two steps up: the polynomial ends at 2.5 */
        return x * SDBR_POLYNOMIAL(sdbr_lgamma_near_2, x) - log(x * (1 + x));
    if (x < 1.5)
        return (x - 1) * SDBR_POLYNOMIAL(sdbr_lgamma_near_2, x - 1) - log(x);
    double product = 1;
    while (x >= 2.5) {
        x -= 1;
        product *= x;
    }
    const double base = (x - 2) * SDBR_POLYNOMIAL(sdbr_lgamma_near_2, x - 2);
    return product > 1 ? base + log(product) : base;
}

SDBR_HELPER double sdbr_lgamma_f8(double x) {
    if (x > 0)
        return sdbr_lgamma_positive_f8(x);
    if (!(x > -(double)INFINITY)) /* NaN, too */
        return x;
    const double part = sdbr_from_integer(x);
    if (part == 0)
        return (double)INFINITY;
    if (x > -0.5) /* 1 - x would be rounded */
        return 1 / x == -(double)INFINITY ? -1 / x : sdbr_lgamma_positive_f8(1 + x) - log(-x);
    return log(SDBR_PI / fabs(sin(SDBR_PI * part))) - sdbr_lgamma_positive_f8(1 - x);
}

SDBR_HELPER double sdbr_digamma_from_1_f8(double x) {
    SDBR_TABLE double series[] = {
        1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12, -3617.0 / 8160,
    };
    if (x < 2) /* the root in two parts */
        return (x - 1.4616321449683622 - 9.549995429965697e-17) * SDBR_POLYNOMIAL(sdbr_digamma_1_2, x - 1.5);
    if (x < 3)
        return SDBR_POLYNOMIAL(sdbr_digamma_2_3, x - 2.5);
    if (x < 5)
        return SDBR_POLYNOMIAL(sdbr_digamma_3_5, x - 4);
    if (x < 10)
        return SDBR_POLYNOMIAL(sdbr_digamma_5_10, x - 7.5);
    const double z = 1 / x;
    return log(x) - (0.5 * z + SDBR_POLYNOMIAL(series, z * z) * (z * z));
}

SDBR_HELPER double sdbr_digamma_positive_f8(double x) {
    return x < 1 ? sdbr_digamma_from_1_f8(x + 1) - 1 / x : sdbr_digamma_from_1_f8(x);
}

/* digamma(x) = digamma(x + 2) - 1 / x - 1 / (x + 1), less the same at the root: all three differences
 * have a factor x - root and one sign. */
SDBR_HELPER double sdbr_digamma_near_root_f8(double x) {
    const double root = -0.5040830082644554, distance = x - root + 8.15428206243813e-18;
    return distance * (SDBR_POLYNOMIAL(sdbr_digamma_below_0, x + 0.5) + 1 / (root * x) + 1 / ((root + 1) * (x + 1)));
}

SDBR_HELPER double sdbr_digamma_f8(double x) {
    if (x > 0)
        return sdbr_digamma_positive_f8(x);
    if (x == 0)
        return -1 / x;
    if (x > -0.25)
        return sdbr_digamma_positive_f8(1 + x) - 1 / x;
    if (x > -0.75)
        return sdbr_digamma_near_root_f8(x);
    const double part = sdbr_from_integer(x);
    if (!(x > -(double)INFINITY) || part == 0)
        return (double)NAN;
    return sdbr_digamma_positive_f8(1 - x) - SDBR_PI / tan(SDBR_PI * part);
}

/* 1 / x^2 + 1 / (x + 1)^2 + ..., from the far end, where the series takes the rest. */
SDBR_HELPER double sdbr_trigamma_positive_f8(double x) {
    SDBR_TABLE double series[] = {
        1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6, -3617.0 / 510, 43867.0 / 798,
    };
    const int steps = x < 10 ? (int)ceil(10 - x) : 0;
    const double far = x + steps, z = 1 / far;
    double sum = z + z * z * (0.5 + z * SDBR_POLYNOMIAL(series, z * z));
    for (int k = steps - 1; k >= 0; k--)
        sum += 1 / ((x + k) * (x + k));
    return sum;
}

SDBR_HELPER double sdbr_trigamma_f8(double x) {
    if (x > 0)
        return sdbr_trigamma_positive_f8(x);
    if (x != x)
        return x;
    const double part = x > -(double)INFINITY ? sdbr_from_integer(x) : 0;
    if (part == 0)
        return (double)INFINITY;
    if (x > -0.5)
        return sdbr_trigamma_positive_f8(1 + x) + 1 / (x * x);
    const double ratio = SDBR_PI / sin(SDBR_PI * part);
    return ratio * ratio - sdbr_trigamma_positive_f8(1 - x);
}

#endif
