"""Which numbers of arrays the code may ask for, so that the answer decides about its way."""

from __future__ import annotations

import numpy as np

_LARGEST = np.iinfo(np.int64).max


def may_ask(array: np.ndarray, answer) -> bool:
    """Whether a replay can tell that one number of an array gives another answer than `answer`."""
    known = isinstance(answer, (bool, int)) and abs(answer) <= _LARGEST
    return known and array.size == 1 and array.dtype.kind in "biuf"


def count(array) -> int:
    """How many elements are not zero; a question of the call where it computes `array`."""
    return int((array if array.dtype == bool else array != 0).sum())
