"""Formulas of the elementwise functions of mathematics."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special


def log_ndtr_grad(x: np.ndarray, gy: np.ndarray) -> np.ndarray:
    """Density over distribution function; far below 0 that is -x, where erfcx is denormal."""
    slope = (2 / np.pi) ** 0.5 / special.erfcx(-x / 2**0.5)
    return np.where(x < -1e8, -x, slope) * gy


#: Op name -> formula.
FORMULAS: dict[str, Callable] = {
    **{name: getattr(special, name) for name in ("erf", "erfc", "ndtr", "log_ndtr")},
    **{
        name: getattr(np, name)
        for name in (
            "log1p", "log2", "log10", "expm1", "sinh", "cosh", "sin", "cos", "tan", "arcsin",
            "arccos", "arctan", "arctanh", "floor", "ceil", "trunc", "arctan2", "fmod",
        )
    },
    "hard_sigmoid": lambda x: np.clip(x * 0.2 + 0.5, 0, 1),
    "divide_nonzero": lambda x, y: np.where(y != 0, x / y, 0),
    "gauss_grad": lambda x, gy, factor, scale: factor * np.exp(scale * (x * x)) * gy,
    "log_ndtr_grad": log_ndtr_grad,
    "hard_sigmoid_grad": lambda x, gy: ((x > -2.5) & (x < 2.5)) * gy * 0.2,
}  # fmt: skip
