"""Which numbers of arrays the code may ask for, so that the answer decides about its way."""

from __future__ import annotations

import operator
from typing import Any

from sdbr.trace.arrays.stripping import LEAVING, is_traced

import numpy as np

#: Their results have as many entries as their argument has that are not zero.
COUNTING = {np.nonzero, np.flatnonzero, np.argwhere, np.where}
#: Their results have shapes that depend on the values of the second argument.
COUNTED = {np.repeat, np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit}
#: What comes after their first argument decides about the shape of the result.
SHAPED = {np.tile, np.diag, np.diagflat, np.pad, np.resize, np.reshape, np.broadcast_to}

_LARGEST = np.iinfo(np.int64).max


def may_ask(array: np.ndarray, answer) -> bool:
    """Whether a replay can tell that one number of an array gives another answer than `answer`."""
    known = isinstance(answer, (bool, int)) and abs(answer) <= _LARGEST
    return known and array.size == 1 and array.dtype.kind in "biuf"


def count(array) -> int:
    """How many elements are not zero; a question of the call where it computes `array`."""
    return int((array if array.dtype == bool else array != 0).sum())


def settled(thing: Any, slices_alone: bool = False) -> Any:
    """`thing` with whole numbers of Python in the place of those that arrays hold.

    Each is a question of the call: for numbers that a shape depends on. With `slices_alone` only
    those in slices.
    """
    kind = type(thing)
    if kind is slice:
        return slice(*[settled(part) for part in (thing.start, thing.stop, thing.step)])
    if kind in (tuple, list):
        parts = [settled(part, slices_alone) for part in thing]
        return thing if all(a is b for a, b in zip(parts, thing, strict=True)) else kind(parts)
    if kind in LEAVING and not is_traced(thing) and hasattr(kind, "__index__"):
        return operator.index(thing)  # a counter: a way of its own for each number
    if slices_alone or not is_traced(thing) or thing.ndim or thing.dtype.kind not in "iu":
        return thing
    return int(thing)
