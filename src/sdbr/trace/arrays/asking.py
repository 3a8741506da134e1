"""What the code may ask of arrays, so that the answer decides about its way: numbers, layout."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

from sdbr.base.reasons import Remedy
from sdbr.trace.arrays._exports import c_order
from sdbr.trace.arrays.stripping import LEAVING, holds_known, is_traced, strip
from sdbr.trace.arrays.telling import leave_by, record
from sdbr.trace.current import current

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
    refuse_inside("how many elements are chosen")
    return int((array if array.dtype == bool else array != 0).sum())


def refuse_inside(what: str) -> None:
    """In the function of an ``F.forget`` nothing asks: what it gives may have another shape."""
    recorder = current()
    if recorder is not None and not recorder.depth and recorder.nodes.forgotten is not None:
        text = f"{what} depends on values in the function of F.forget"
        recorder.mark_dynamic(text, Remedy.STAY_ARRAYS)
        recorder.nodes.forgotten.shaped = True


def settled(thing: Any, slices_alone: bool = False, floats: bool = False) -> Any:
    """`thing` with whole numbers of Python in the place of those that arrays hold.

    Each is a question of the call: for numbers that a shape depends on. With `slices_alone` only
    those in slices. With `floats` floats that are followed have to stay, too.
    """
    kind = type(thing)
    if kind is slice:
        return slice(*[settled(part) for part in (thing.start, thing.stop, thing.step)])
    if kind in (tuple, list):
        parts = [settled(part, slices_alone, floats) for part in thing]
        return thing if all(a is b for a, b in zip(parts, thing, strict=True)) else kind(parts)
    if kind in LEAVING and not is_traced(thing) and hasattr(kind, "__index__"):
        return operator.index(thing)  # a counter: a way of its own for each number
    if floats and kind in LEAVING and not is_traced(thing):
        return LEAVING[kind](thing)
    if slices_alone or not is_traced(thing) or thing.ndim or thing.dtype.kind not in "iu":
        return thing
    return int(thing)


# --- how arrays lie in memory ------------------------------------------------------------------
def ask_layout(flagged: np.ndarray | None = None) -> None:
    """The code learns how an array lies in memory: that of what the call is given counts.

    How arrays of the call lie follows from that: they lie as those that they are made of.

    Parameters
    ----------
    flagged : ndarray, optional
        One whose flags the code gets hold of; it may set them.
    """
    recorder = current()
    if recorder is not None and not recorder.depth:
        recorder.trace.asks_layout = True
        if flagged is not None:
            recorder.memory.flagged.append((flagged, flagged.flags.num))


def in_order(name: str, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """Arguments of ``ravel`` and the like, which name no order but that of C and of Fortran.

    In a replay the array may lie in another one than it lay in when it was traced.
    """
    at = 2 if name == "reshape" else 1
    order = kwargs.get("order", args[at] if len(args) > at else None)
    known = "Aa" if name == "reshape" else "KkAa"  # NumPy refuses others
    if not isinstance(order, str) or order not in known or strip(args[0]).ndim < 2:
        return args, kwargs
    ask_layout()
    array, *rest = args
    if order in "Kk":
        array, order = array.transpose(c_order(strip(array))), "C"
    else:
        order = "F" if strip(array).flags.fnc else "C"
    if "order" in kwargs:
        return (array, *rest), {**kwargs, "order": order}
    return (array, *rest[: at - 1], order, *rest[at:]), kwargs


def telling_layout(name: str) -> property:
    """A property of arrays that tells how one lies in memory."""

    def read(self):
        array = strip(self)
        # Chainer's own code chooses among libraries by it, and computes the same.
        if sys._getframe(1).f_globals.get("__name__", "")[:8] != "chainer.":
            on_host = isinstance(array, np.ndarray)  # flags of others cannot be set
            ask_layout(array if name == "flags" and on_host and holds_known(self) else None)
        return getattr(array, name)

    return property(read)


def viewing(method: Callable) -> Callable:
    """The method ``view``: to elements of another size, how the array lies in memory matters."""

    def view(self, *args, **kwargs):
        dtype = kwargs.get("dtype", args[0] if args else None)
        is_class = isinstance(dtype, type) and issubclass(dtype, np.ndarray)
        if dtype is None or is_class or np.dtype(dtype).itemsize == self.dtype.itemsize:
            return method(self, *args, **kwargs)
        ask_layout()
        if strip(self).flags.c_contiguous:
            return record(_view_in_c_order, (self, *args), kwargs)
        leave_by("elements of another size were seen in an array", Remedy.STAY_ARRAYS, self)
        return strip(self).view(*args, **kwargs)

    return view


def _view_in_c_order(array: np.ndarray, *args: Any, **kwargs: Any) -> np.ndarray:
    return np.ascontiguousarray(array).view(*args, **kwargs)
