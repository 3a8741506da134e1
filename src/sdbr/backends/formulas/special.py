"""Formulas of the elementwise functions of mathematics."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

#: Op name -> formula.
FORMULAS: dict[str, Callable] = {
    **{name: getattr(special, name) for name in ("erf", "erfc", "ndtr")},
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
    "hard_sigmoid_grad": lambda x, gy: ((x > -2.5) & (x < 2.5)) * gy * 0.2,
}  # fmt: skip
