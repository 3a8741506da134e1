"""Which things are traced arrays, or hold some, and what define-by-run has in their place."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence

from sdbr.devices.arrays import ARRAYS, Array
from sdbr.trace.current import current

import numpy as np

_view = np.ndarray.view


class _Pure:
    """The origin of arrays that were made from nothing."""

    def __repr__(self) -> str:
        return "PURE"


PURE = _Pure()


#: The classes of traced arrays: `TracedArray`, and those of arrays without dimensions.
TRACED: set[type] = set()

#: Classes of arrays that are none of NumPy's, each with what makes a traced view of one.
VIEWS: dict[type, Callable] = {}


def is_traced(thing) -> bool:
    """Whether `thing` is a traced array or stands for a NumPy scalar."""
    return type(thing) in TRACED


def strip(array):
    """The plain array behind a traced one; anything else unchanged."""
    if type(array) not in TRACED:
        return array
    if array.plain is not None:
        return array.plain
    return _view(array, np.ndarray) if isinstance(array, np.ndarray) else Array.view(array, Array)


def shown(thing):
    """What define-by-run has in the place of `thing`: a plain array, a NumPy scalar, itself."""
    plain = strip(thing)
    if plain is not thing and plain.ndim == 0 and getattr(thing.origin, "is_scalar", False):
        return plain[()]
    return plain


def strip_nested(thing):
    """Strip inside tuples, lists and dicts."""
    kind = type(thing)
    if kind in TRACED:
        return shown(thing)
    if kind is tuple:
        return tuple(strip_nested(t) for t in thing)
    if kind is list:
        return [strip_nested(t) for t in thing]
    if kind is dict:
        return {k: strip_nested(v) for k, v in thing.items()}
    leave = LEAVING.get(kind)
    if leave is not None:
        return leave(thing)
    if is_sequence(kind) and holds_traced(thing):
        return [strip_nested(t) for t in thing]
    return thing


def is_sequence(kind: type) -> bool:
    """Whether NumPy takes an object of this class for a list."""
    known = _SEQUENCES.get(kind)
    if known is None:
        like = issubclass(kind, (Sequence, collections.deque))
        known = like and not issubclass(kind, (str, bytes, bytearray, memoryview, range))
        _SEQUENCES[kind] = known
    return known


_SEQUENCES: dict[type, bool] = {}

#: Classes of other traced things, each with what takes the plain thing out of one.
LEAVING: dict[type, Callable] = {}


def holds_known(thing) -> bool:
    """Whether `thing` contains a traced array that is not pure."""
    kind = type(thing)
    if kind in TRACED:
        return thing.origin is not PURE
    if kind is dict:
        return any(map(holds_known, thing.values()))
    return is_sequence(kind) and any(map(holds_known, thing))


def holds_traced(thing) -> bool:
    """Whether `thing` contains a traced array, or what else is traced."""
    kind = type(thing)
    if kind in TRACED or kind in LEAVING:
        return True
    if kind is dict:
        return any(map(holds_traced, thing.values()))
    return is_sequence(kind) and any(map(holds_traced, thing))


def holds_unknown(thing) -> bool:
    """Whether `thing` contains an array that is not traced, or a pure one filled unseen."""
    kind = type(thing)
    if kind in TRACED:
        return thing.origin is PURE and current().values.was_filled(thing.plain)
    if kind is dict:
        return any(map(holds_unknown, thing.values()))
    if is_sequence(kind):
        return any(map(holds_unknown, thing))
    return isinstance(thing, ARRAYS)
