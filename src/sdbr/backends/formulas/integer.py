"""Formulas of comparisons, and of integers and truth values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

#: By the number that `compare` carries.
COMPARISONS: tuple[Callable, ...] = (
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
)  # fmt: skip
#: By the number that `integer` carries.
ARITHMETIC: tuple[Callable, ...] = (
    np.add, np.subtract, np.multiply, np.maximum, np.minimum,
    np.bitwise_and, np.bitwise_or, np.bitwise_xor,
)  # fmt: skip

FORMULAS: dict[str, Callable] = {
    "compare": lambda x, y, kind: COMPARISONS[kind](x, y),
    "integer": lambda x, y, kind: ARITHMETIC[kind](x, y),
}
