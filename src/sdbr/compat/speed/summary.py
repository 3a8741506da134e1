"""``Summary.add`` of arrays: the same sums, on the device where they are."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

#: Kinds of floats that stay what they are times a 1 of Python's; before NumPy 2 single ones do not.
_STAY = "efd" if (1 * np.float16(1)).dtype == np.float16 else "d"


def add_of(original: Callable) -> Callable:
    """What is to stand in the place of ``Summary.add``."""

    @functools.wraps(original)
    def add(self, value, weight=1):
        if type(value) is not np.ndarray and not isinstance(value, np.generic):
            original(self, value, weight)
            return
        # Chainer enters the device of the value, which takes longer than this.
        if value.ndim == 0 and value.dtype.char in _STAY and type(weight) is int and weight == 1:
            value = value[()]  # scalars are quicker than arrays without dimensions
            self._x += value
            self._x2 += value * value
            self._n += 1
            return
        self._x += weight * value
        self._x2 += weight * value * value
        self._n += weight

    return add
