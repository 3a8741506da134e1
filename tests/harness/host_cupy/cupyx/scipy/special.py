"""``cupyx.scipy.special``: universal functions of SciPy."""

import numpy as np
import scipy.special
from cupy import convert
from cupy.ufuncs import ufunc

NAMES = [
    "beta",
    "betaln",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcinv",
    "erfcx",
    "erfinv",
    "exp1",
    "expit",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammaln",
    "i0",
    "i1",
    "j0",
    "j1",
    "log1p",
    "log_ndtr",
    "logit",
    "ndtr",
    "ndtri",
    "psi",
    "xlog1py",
    "xlogy",
    "y0",
    "y1",
    "zeta",
]

globals().update(
    (name, ufunc(name, getattr(scipy.special, name)))
    for name in NAMES
    if isinstance(getattr(scipy.special, name), np.ufunc)
)


def polygamma(n, x):
    return convert.call(scipy.special.polygamma, n, x)


def logsumexp(a, axis=None, b=None, keepdims=False, return_sign=False):
    return convert.call(scipy.special.logsumexp, a, axis, b, keepdims, return_sign)


def softmax(x, axis=None):
    return convert.call(scipy.special.softmax, x, axis)


def zeta(x, q):
    return convert.call(scipy.special.zeta, x, q)
