"""Numbers and objects that user code reads from outside its chain.

Globals, variables of enclosing functions, attributes of classes, of modules and of plain objects:
nothing tells when they are written, so they are looked at before every replay. They are found by
reading the byte code of the functions that a call may run.
"""

from __future__ import annotations

import datetime
import dis
import functools
import io
import random
import sys
import types
from collections.abc import Iterator
from typing import Any

import chainer
import numpy as np

_LIBRARIES = frozenset({"builtins", "chainer", "cupy", "numpy", "scipy", "sdbr"})
_SCALARS = (int, float, str, bool, complex, type(None))
_MAX_ITEMS = 64
# Functions of the module `time`.
CLOCKS = (
    'clock_gettime', 'clock_gettime_ns', 'monotonic', 'monotonic_ns', 'perf_counter',
    'perf_counter_ns', 'process_time', 'process_time_ns', 'thread_time', 'thread_time_ns', 'time',
    'time_ns',
)  # fmt: skip
_COMPILED = frozenset({"array", "cmath", "ctypes", "decimal", "statistics", "struct"})


class Cell:
    """A variable of an enclosing function, read like a dictionary."""

    __slots__ = ("cell",)

    def __init__(self, cell):
        self.cell = cell

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self.cell.cell_contents
        except ValueError:  # not assigned yet
            return default


@functools.lru_cache(maxsize=1024)
def names_in(code: types.CodeType) -> tuple[frozenset, frozenset, frozenset]:
    """Names of globals, of variables of enclosing functions and of attributes that `code` reads."""
    found: tuple[set, set, set] = set(), set(), set()
    for instruction in dis.get_instructions(code):
        kind = instruction.opname
        if kind in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL"):
            found[0].add(instruction.argval)
        elif kind in ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF", "STORE_DEREF"):
            found[1].add(instruction.argval)
        elif kind in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
            found[2].add(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            for names, more in zip(found, names_in(constant), strict=True):
                names.update(more)
    return frozenset(found[0]), frozenset(found[1]), frozenset(found[2])


def is_library(thing) -> bool:
    """Whether a function, class or module is not the user's own."""
    name = (
        thing.__name__
        if isinstance(thing, types.ModuleType)
        else getattr(thing, "__module__", None)
    )
    return is_library_name(name or "builtins")


def is_library_name(name: str) -> bool:
    """Whether a module of this name is not the user's own."""
    root = name.partition(".")[0]
    return root in _LIBRARIES or (root in sys.stdlib_module_names and root != "__main__")


class Outside:
    """What a call of `function` may read from outside, as it is now.

    Attributes
    ----------
    entries : list of (holder, str, object)
        ``holder.get(name)`` is what the code would read; the object is what it was.
    definitions : list of (holder, str, object)
        The same for functions, which are compared by identity.
    opaque : bool
        Whether the code may use floats in a way that a float of another class does not notice.
    reason : str or None
        Why the call cannot be static.
    """

    def __init__(self, function, owner):
        self.opaque = False
        self.reason: str | None = None
        self.entries: list[tuple[Any, str, Any]] = []
        self.definitions: list[tuple[Any, str, Any]] = []
        self._functions: list = []
        self._seen: set[int] = set()
        self._classes: dict[type, None] = {}
        self._attributes: set[str] = {"forward", "__call__"}
        self._holders: dict[tuple[int, str], None] = {}
        self._follow(function)
        if owner is not None:
            self._link(owner)
        done = (-1, -1)
        while self._functions or done != (len(self._classes), len(self._attributes)):
            done = (len(self._classes), len(self._attributes))
            while self._functions:
                self._read(self._functions.pop())
            for cls in list(self._classes):
                self._class_members(cls)

    def _follow(self, function) -> None:
        if hasattr(function, "_sdbr_static_code"):
            return  # runs every time: nothing that it reads is frozen
        function = getattr(function, "_sdbr_function", function)
        function = getattr(function, "__func__", function)
        if (
            isinstance(function, types.FunctionType)
            and id(function) not in self._seen
            and not is_library(function)
        ):
            self._seen.add(id(function))
            self._functions.append(function)

    def _link(self, link: chainer.Link) -> None:
        for child in link.links():
            self._classes.setdefault(type(child))
            for thing in list(child.__dict__.values()):
                self._follow(thing)
                if not is_library(type(thing)):
                    self._classes.setdefault(type(thing))

    def _class_members(self, cls: type) -> None:
        """Methods and numbers among the attributes of a class that the code asks for."""
        before: list[type] = []
        for base in cls.__mro__:
            if is_library(base):
                continue
            for name in self._attributes & base.__dict__.keys():
                thing = base.__dict__[name]
                self._define(base.__dict__, name, thing, before)
                if isinstance(thing, property):
                    self._follow(thing.fget)
                elif isinstance(thing, (staticmethod, classmethod)):
                    self._follow(thing.__func__)
                elif isinstance(thing, _SCALARS):
                    self._add(base.__dict__, name, thing)
                else:
                    self._follow(thing)
            if "_sdbr_base" not in base.__dict__:
                before.append(base)

    def _read(self, function: types.FunctionType) -> None:
        names, enclosed, attributes = names_in(function.__code__)
        self._attributes |= attributes
        holder = function.__globals__
        self.opaque |= "type" in names
        for name in names & holder.keys():
            self._thing(holder, name, holder[name], attributes)
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            if name in enclosed and name != "__class__":
                enclosing = Cell(cell)
                thing = enclosing.get(name, self)
                if thing is not self:
                    self._thing(enclosing, name, thing, attributes)
        for thing in [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]:
            self._follow(thing)

    def _thing(self, holder, name: str, thing, attributes) -> None:
        self.opaque |= _takes_plain_floats(thing)
        if self.reason is None:
            reason = moves_on(thing) or _tells_time(thing, attributes)
            self.reason = reason and f"{name!r} {reason}"
        if isinstance(thing, types.ModuleType):
            if not is_library(thing):
                for attribute in attributes & thing.__dict__.keys():
                    if not isinstance(thing.__dict__[attribute], types.ModuleType):
                        self._thing(
                            thing.__dict__, attribute, thing.__dict__[attribute], frozenset()
                        )
            return
        if isinstance(thing, type):
            if not is_library(thing):
                for attribute in attributes & thing.__dict__.keys():
                    if isinstance(thing.__dict__[attribute], _SCALARS):
                        self._add(thing.__dict__, attribute, thing.__dict__[attribute])
            return
        if isinstance(thing, chainer.Link):
            self._link(thing)
        if callable(thing) and not isinstance(thing, chainer.Link):
            self._follow(thing)
            if getattr(thing, "__name__", None) == name:
                self._define(holder, name, thing)
                return
        self._add(holder, name, thing)

    def _define(self, holder, name: str, thing, before=()) -> None:
        """Note a function of the user's; in a notebook it may be defined anew.

        `before` are classes that may get one of the name.
        """
        plain = getattr(thing, "fget", None) or getattr(thing, "__func__", thing)
        if isinstance(plain, types.FunctionType) or hasattr(plain, "_sdbr_function"):
            if not is_library(plain):
                self.definitions.append((holder, name, thing))
                self.definitions += [
                    (cls.__dict__, name, None) for cls in before if name not in cls.__dict__
                ]

    def _add(self, holder, name: str, thing) -> None:
        key = (id(holder.cell) if isinstance(holder, Cell) else id(holder), name)
        if key not in self._holders:
            self._holders[key] = None
            self.entries.append((holder, name, thing))


def _tells_time(thing, attributes) -> str | None:
    """Why a clock that is called past its module makes a call dynamic."""
    if isinstance(thing, types.BuiltinFunctionType):
        is_clock = thing.__module__ == "time" and thing.__name__ in CLOCKS
        return "reads the clock; what it tells has to come in as an argument" if is_clock else None
    now = isinstance(thing, type) and issubclass(thing, datetime.date)
    if now or thing is datetime:
        found = attributes & {"now", "today", "utcnow"}
        if found:
            return f"is asked for {min(found)}(); what it tells has to come in as an argument"
    return None


def _takes_plain_floats(thing) -> bool:
    """Whether `thing` is compiled code that takes the value of any float without asking it.

    The functions of :mod:`math` are watched when they are called through their module.
    """
    if isinstance(thing, types.ModuleType):
        return thing.__name__.partition(".")[0] in _COMPILED
    if isinstance(thing, types.BuiltinFunctionType) or type(thing).__name__.startswith("cython"):
        return (thing.__module__ or "").partition(".")[0] not in ("builtins", "numpy", "time")
    return False


def moves_on(thing) -> str | None:
    """Why a thing gives something else each time it is asked, so that no schedule can read it."""
    if isinstance(thing, (random.Random, np.random.RandomState, np.random.Generator)):
        return "is a random generator of its own; draw with numpy.random, or in static_code"
    if isinstance(thing, Iterator) and not isinstance(thing, io.IOBase):
        return "is an iterator, which goes on from call to call; pass what it gives as an argument"
    return None


def is_small(thing) -> bool:
    """Whether the items of a container can be compared at every call."""
    return len(thing) <= _MAX_ITEMS


__all__ = ["Cell", "Outside", "is_small", "names_in"]
