"""NumPy calls of user code that give views: rows of the buffer table, no ops."""

from __future__ import annotations

from sdbr.program.buffers import Row
from sdbr.program.builder import Builder
from sdbr.trace.arrays.rewriting import Window
from sdbr.trace.values import Hole

import numpy as np

#: Functions and methods whose result is a view of their first argument, whatever its layout.
_VIEWS = frozenset(
    (
        "T",
        "_getitem",
        "broadcast_to",
        "expand_dims",
        "flip",
        "fliplr",
        "flipud",
        "moveaxis",
        "rollaxis",
        "squeeze",
        "swapaxes",
        "transpose",
    )
)
#: Those that give the elements in C order in another shape: views where the layout allows.
_SHAPES = frozenset(("flatten", "ravel", "reshape"))
#: Those that give what they are given, where it is as it should be.
_SAME = frozenset(("asanyarray", "asarray", "ascontiguousarray", "asfortranarray"))
_OWNERS = ("numpy", "sdbr.trace.arrays.provenance")


def lower_view(b: Builder, call, args, kwargs, xs: list[Row], want) -> Row | None:
    """The view that a recorded call gives, or None when it gives none.

    Parameters
    ----------
    b : Builder
    call : callable
    args, kwargs
        As recorded: a known array is a hole.
    xs : list of Row
        The known arrays.
    want : Value
        What the call gave.
    """
    if type(call) is Window:
        place = call.place
        if place.dtype != xs[0].dtype or not xs[0].is_contiguous:
            return None
        return b.table.view(xs[0], place.shape, place.strides, place.offset)
    name = getattr(call, "__name__", "")
    if name not in _VIEWS and name not in _SHAPES:
        return None
    if getattr(call, "__module__", "") not in _OWNERS:
        return None
    # One known array, in front; what else there is are numbers.
    if len(xs) != 1 or not args or type(args[0]) is not Hole or want.dtype != xs[0].dtype:
        return None
    if name in _SHAPES:
        return None if kwargs or _ordered(name, args) else b.reshape(xs[0], want.shape)
    if name == "_getitem":
        return b.slice(xs[0], args[1]) if is_basic(args[1]) else None
    return b.view_like(xs[0], lambda dummy: call(dummy, *args[1:], **kwargs))


def gives_view(call: tuple) -> bool:
    """Whether a recorded ``(function, args, kwargs)`` may give memory of its arguments."""
    function, _, kwargs = call
    if type(function) is Window:
        return True
    name = getattr(function, "__name__", "")
    if name == "astype" and kwargs.get("copy") is False:
        return True
    return name in _VIEWS or name in _SAME or (name in _SHAPES and name != "flatten")


def _ordered(name: str, args) -> bool:
    """Whether an order was asked for: ``ravel('F')``, ``np.reshape(x, shape, 'F')``."""
    return any(isinstance(a, str) for a in args[1:])


def is_basic(key) -> bool:
    """Whether an index gives a view: ints, slices, None and Ellipsis."""
    for part in key if isinstance(key, tuple) else (key,):
        bounds = (part.start, part.stop, part.step) if isinstance(part, slice) else (part,)
        for bound in bounds:
            if bound is None or bound is Ellipsis:
                continue
            if isinstance(bound, (bool, np.bool_)) or not isinstance(bound, (int, np.integer)):
                return False
    return True
