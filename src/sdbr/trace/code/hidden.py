"""What lies behind objects of the standard library that hold things of the user's.

A decorated function, a partial method or a registry hold functions; a context variable, a weak
reference or a proxy lead to things that byte code does not name.
"""

from __future__ import annotations

import contextvars
import ctypes
import functools
import gc
import operator
import types
import weakref
from collections.abc import Callable
from typing import Any

from sdbr.trace.code.reading import Field, get

_HOLDING = frozenset({
    "functools", "contextlib", "operator", "_operator", "collections", "types", "weakref",
})  # fmt: skip
_GETTERS = (operator.attrgetter, operator.methodcaller)


class Window(Field):
    """What is seen through an object, read like a dictionary whatever the key."""

    __slots__ = ("read",)

    def __init__(self, thing, read: Callable):
        super().__init__(thing, "")
        self.read = read

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self.read(self.thing)
        except Exception:  # a context variable without a value, a pointer to nowhere
            return default


def _contents(thing) -> bytes:
    return bytes(memoryview(thing).cast("B"))


_WINDOWS: tuple[tuple[Any, Callable], ...] = (
    (contextvars.ContextVar, lambda thing: thing.get()),
    (weakref.ref, lambda thing: thing()),
    ((types.MappingProxyType, weakref.WeakValueDictionary, weakref.WeakKeyDictionary), dict),
    # What a cached function gave stays until its cache is cleared.
    (functools._lru_cache_wrapper, lambda thing: thing.cache_info().currsize > 0),
    ((ctypes._SimpleCData, ctypes.Structure, ctypes.Union, ctypes.Array), _contents),
)
#: All of these kinds at once: hardly anything is one of them.
_EVERY_WINDOW = tuple(kinds for kinds, _ in _WINDOWS)


def window_of(thing) -> Window | None:
    """How to look through `thing`; None where there is nothing behind it."""
    # Most things are functions; some of the kinds are abstract, and slow to ask.
    if type(thing) is not types.FunctionType and isinstance(thing, _EVERY_WINDOW):
        for kinds, read in _WINDOWS:
            if isinstance(thing, kinds):
                return Window(thing, read)
    return None


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
