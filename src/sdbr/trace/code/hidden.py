"""What lies behind objects of the standard library that hold functions of the user's.

A decorated function, a partial method or a registry do.
"""

from __future__ import annotations

import gc
import operator
import types

from sdbr.trace.code.reading import get

_HOLDING = frozenset({
    "functools", "contextlib", "operator", "_operator", "collections", "types", "weakref",
})  # fmt: skip
_GETTERS = (operator.attrgetter, operator.methodcaller)


def parts_of(thing) -> list:
    """What an object of the standard library holds, where that may be the user's."""
    if type(thing).__module__ not in _HOLDING:
        return []
    return [part for part in gc.get_referents(thing) if part is not type(thing)]


def names_asked_by(thing) -> frozenset:
    """The names that ``operator.attrgetter('a.b')`` and ``methodcaller('m')`` ask for."""
    if not isinstance(thing, _GETTERS):
        return frozenset()
    texts = [x for x in thing.__reduce__()[1] if isinstance(x, str)]
    return frozenset(name for text in texts for name in text.split("."))


def wrapped_by(function: types.FunctionType) -> list:
    """What a function of a library that stands for one of the user's leads to."""
    cells = [get(cell, "cell_contents") for cell in function.__closure__ or ()]
    return [*cells, *function.__dict__.values()]
