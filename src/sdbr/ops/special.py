"""Elementwise functions of mathematics."""

from __future__ import annotations

from sdbr.ops.op import Ops

import numpy as np
from scipy import special

define = Ops()
one = define.elementwise

EXACT = {"exact": True}

# --- one input -----------------------------------------------------------------------------------
one("erf", "x", "y", "y = erf(x)", special.erf)
one("erfc", "x", "y", "y = erfc(x)", special.erfc)
one("ndtr", "x", "y", "y = erfc(-x / sqrt(2)) / 2", special.ndtr)
one("log_ndtr", "x", "y", "y = log(erfc(-x / sqrt(2)) / 2)", special.log_ndtr)
one("log1p", "x", "y", "y = log1p(x)", np.log1p)
one("log2", "x", "y", "y = log2(x)", np.log2)
one("log10", "x", "y", "y = log10(x)", np.log10)
one("expm1", "x", "y", "y = expm1(x)", np.expm1)
one("sinh", "x", "y", "y = sinh(x)", np.sinh)
one("cosh", "x", "y", "y = cosh(x)", np.cosh)
one("sin", "x", "y", "y = sin(x)", np.sin)
one("cos", "x", "y", "y = cos(x)", np.cos)
one("tan", "x", "y", "y = tan(x)", np.tan)
one("arcsin", "x", "y", "y = arcsin(x)", np.arcsin)
one("arccos", "x", "y", "y = arccos(x)", np.arccos)
one("arctan", "x", "y", "y = arctan(x)", np.arctan)
one("arctanh", "x", "y", "y = arctanh(x)", np.arctanh)
one("floor", "x", "y", "y = floor(x)", np.floor, **EXACT)
one("ceil", "x", "y", "y = ceil(x)", np.ceil, **EXACT)
one("trunc", "x", "y", "y = trunc(x)", np.trunc, **EXACT)
one(
    "hard_sigmoid", "x", "y", "y = clip(x * 0.2 + 0.5, 0, 1)",
    lambda x: np.clip(x * 0.2 + 0.5, 0, 1),
)  # fmt: skip
one("digamma", "x", "y", "y = digamma(x)", special.digamma)
one("trigamma", "x", "y", "y = polygamma(1, x)", lambda x: special.polygamma(1, x))
one("lgamma", "x", "y", "y = log(abs(gamma(x)))", special.gammaln)
one("erfinv", "x", "y", "erf(y) = x", special.erfinv)
one("erfcinv", "x", "y", "erfc(y) = x", special.erfcinv)
one("erfcx", "x", "y", "y = exp(x * x) * erfc(x)", special.erfcx)

# --- two inputs ----------------------------------------------------------------------------------
one("arctan2", "x y", "z", "z = arctan2(x, y)", np.arctan2)
one("fmod", "x y", "z", "z = fmod(x, y)", np.fmod, **EXACT)
one(
    "divide_nonzero", "x y", "z", "z = where(y != 0, x / y, 0)",
    lambda x, y: np.where(y != 0, x / y, 0), **EXACT,
)  # fmt: skip

# --- gradients -----------------------------------------------------------------------------------
one(
    "gauss_grad", "x gy", "gx", "gx = factor * exp(scale * x * x) * gy",
    lambda x, gy, factor, scale: factor * np.exp(scale * (x * x)) * gy, "factor scale",
)  # fmt: skip


@one("log_ndtr_grad", "x gy", "gx", "gx = sqrt(2 / pi) / erfcx(-x / sqrt(2)) * gy")
def log_ndtr_grad(x: np.ndarray, gy: np.ndarray) -> np.ndarray:
    """Density over distribution function; far below 0 that is -x, where erfcx is denormal."""
    slope = (2 / np.pi) ** 0.5 / special.erfcx(-x / 2**0.5)
    return np.where(x < -1e8, -x, slope) * gy


one(
    "hard_sigmoid_grad", "x gy", "gx", "gx = ((-2.5 < x) & (x < 2.5)) * gy * 0.2",
    lambda x, gy: ((x > -2.5) & (x < 2.5)) * gy * 0.2,
)  # fmt: skip

OPS = define.ops
