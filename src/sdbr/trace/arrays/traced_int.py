"""Whole numbers that know where they come from: counters, which a call reads and writes.

To Python such a number is no int, so that whatever needs one has to ask for it: as an index, as a
key, for its text. A comparison and an index are conditions on later values, arithmetic is recorded.
"""

from __future__ import annotations

import operator
import sys
from typing import Any

from sdbr.trace.arrays._scalars import Condition, Left, Scalar, ScalarAttribute
from sdbr.trace.arrays.stripping import LEAVING
from sdbr.trace.arrays.traced_float import (
    FOLLOWED,
    WHOLE,
    TracedFloat,
    binary,
    compared,
    computed,
    strip_floats,
)
from sdbr.trace.arrays.views import replace_everywhere
from sdbr.trace.code.frames import user_frames
from sdbr.trace.code.reading import names_stored
from sdbr.trace.current import current

import numpy as np

_ARRAY = np.array  # while a call is traced that of the module makes arrays of the trace


class TracedInt:
    """A whole number that carries the `Scalar` it shows as `origin`."""

    __slots__ = ("origin", "plain")
    kind = int

    def __init__(self, plain: int, origin: Scalar):
        self.plain = plain
        self.origin = origin
        recorder = current()
        if recorder is not None:
            left = type(origin) is Left
            (recorder.floats.followed_floats if left else recorder.ints.counters).append(self)

    @property
    def __class__(self):
        """What ``isinstance`` is told."""
        return int

    def __getattr__(self, name: str) -> Any:
        if not hasattr(int, name):
            raise AttributeError(f"'int' object has no attribute {name!r}")
        return getattr(self.leave(), name)

    def leave(self) -> int:
        """The number itself, for code that cannot be followed."""
        recorder = current()
        if recorder is not None and self.origin.token is recorder.floats.token:
            if type(self.origin) is Left:
                return self.__index__()
            recorder.floats.note_leaving(self.origin)
        return self.plain

    def __index__(self) -> int:
        """The number itself: a replay goes the way of this very number."""
        recorder = current()
        if recorder is not None and self.origin.token is recorder.floats.token:
            if type(self.origin) is Left:
                return recorder.leaving.round_off(self, None, self.plain)
            recorder.trace.conditions.append(
                Condition(operator.eq, (self.origin, self.plain), True)
            )
        return self.plain

    __int__ = __trunc__ = __floor__ = __ceil__ = __index__

    def __hash__(self) -> int:
        return hash(self.__index__())

    def __bool__(self) -> bool:
        return compared(operator.truth, (self,))

    def __pos__(self) -> TracedInt:
        return self

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self

    def __reduce_ex__(self, protocol):
        return int, (self.leave(),)

    def __deepcopy__(self, memo):
        return self.leave()

    def __copy__(self):
        return self.leave()

    def __complex__(self):  # an int has none
        return complex(self.leave())

    def __array__(self, dtype=None, copy=None):
        return _ARRAY(self.leave(), dtype)

    def __array_function__(self, function, types, args, kwargs):
        return function(*strip_floats(args), **strip_floats(kwargs))

    __array_ufunc__ = TracedFloat.__array_ufunc__


TracedInt.__name__ = "int"  # in texts of errors
FOLLOWED.add(TracedInt)
LEAVING[TracedInt] = TracedInt.leave
WHOLE[int] = TracedInt

_OURS = sys.getrefcount([object()][0]) + 1


def _unary(function):
    return lambda self: computed(function, (self,))


def _leaving(name: str):
    def method(self, *args):
        return getattr(self.leave(), name)(*strip_floats(args))

    return method


for _name in (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "lshift", "rshift", "and_", "or_", "xor",
    "pow",
):  # fmt: skip
    _function, _name = getattr(operator, _name), _name.rstrip("_")
    setattr(TracedInt, f"__{_name}__", binary(_function, computed, False))
    setattr(TracedInt, f"__r{_name}__", binary(_function, computed, True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(TracedInt, f"__{_name}__", binary(getattr(operator, _name), compared, False))
for _name in ("neg", "abs", "invert"):
    setattr(TracedInt, f"__{_name}__", _unary(getattr(operator, _name)))
for _name in ("__float__", "__round__", "__repr__", "__str__", "__format__"):
    setattr(TracedInt, _name, _leaving(_name))


class Ints:
    """The part of the recorder that hands out whole numbers which the call counts."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.floats = recorder.floats
        self.counters: list[TracedInt] = []  # every one that was handed out

    def counts(self, name: str) -> bool:
        """Whether one in an attribute of this name was another in an earlier call, or the code that
        runs may assign one to it."""
        return name in self.recorder.moving or any(
            name in names_stored(frame.f_code) for frame in user_frames(self.recorder.frame)
        )

    def int_attribute(self, link, name: str, value: int, was_read: bool = False):
        """What user code gets for ``link.name``; `was_read`: by code that has got it as it is."""
        scalar = self.floats.scalars.get((id(link), name))
        if scalar is None:
            if was_read:
                return value
            scalar = self.floats.scalars[id(link), name] = ScalarAttribute(
                link, name, self.floats.token, int
            )
        return TracedInt(value, scalar)

    def counted(self, number: TracedInt) -> TracedInt:
        """A number that was made before the call began."""
        self.counters.append(number)
        return number

    def take_back_counters(self) -> None:
        """The call is over: who has kept a number that was followed gets it as Python's.

        What cannot be given another is nothing that replays make again: it has to be that number.
        """
        held = []
        while self.counters:
            if sys.getrefcount(self.counters[-1]) > _OURS:
                held.append(self.counters[-1])
            self.counters.pop()
        new = {id(x): (x, x.plain) for x in held}
        held.clear()
        replace_everywhere(new)
        for pair in new.values():
            if sys.getrefcount(pair[0]) > _OURS:
                self.floats.note_leaving(pair[0].origin)
