"""Floats that know where they come from, and the part of the recorder that hands them out.

While a call is traced, a float that changes from call to call is a :class:`TracedFloat`. Arithmetic
on it is recorded, a comparison becomes a condition on later values. Any other use that its methods
notice makes the value part of what a call is compared by, as it was in the trace.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any

from sdbr.trace._node_copies import attributes_of
from sdbr.trace.arrays._scalars import (
    KINDS,
    Condition,
    Derived,
    Left,
    Scalar,
    ScalarArgument,
    ScalarAttribute,
    is_computed,
)
from sdbr.trace.arrays.stripping import LEAVING, is_traced
from sdbr.trace.code.catching import catches_arithmetic
from sdbr.trace.code.foreign import is_users
from sdbr.trace.code.frames import user_line
from sdbr.trace.current import current

import numpy as np

#: Before NumPy 2 the value of a number beside an array decides about the dtype, one beside another
#: number is of double precision, and some compiled code takes its value without asking it.
BY_VALUE = int(np.__version__.partition(".")[0]) < 2
_OF_NUMPY = (np.ndarray, np.generic)
#: What every number of that class has alike.
_OF_FLOAT64 = frozenset({"dtype", "itemsize", "nbytes", "ndim", "shape", "size", "strides"})
# They raise none of these, but for whole numbers beyond all floats.
_SAFE = frozenset((
    operator.add, operator.sub, operator.mul, operator.neg, operator.abs, operator.and_,
    operator.or_, operator.xor, operator.invert, float,
))  # fmt: skip
_MAX_DEPTH = 32  # of arithmetic on arithmetic
# Code of Chainer that does nothing with ``float(x)`` but store it on a function node.
_STORED = frozenset({
    ("chainer.functions.activation.elu", "__init__"),
    ("chainer.functions.activation.softplus", "__init__"),
})  # fmt: skip


class TracedFloat(float):
    """A float that carries the `Scalar` it shows as `origin`; outside its trace, just a float."""

    __slots__ = ("kind", "origin", "plain")

    def __new__(cls, value: float = 0.0, origin: Scalar | None = None):
        if origin is None:  # code that asks for `type(x)` makes another number of that class
            return float(value)
        self = float.__new__(cls, value)
        self.origin = origin
        self.plain = value  # the very object
        self.kind = type(value)  # float or numpy.float64, which decides about dtypes
        recorder = current()
        if recorder is not None:
            recorder.floats.followed_floats.append(self)
        return self

    @property
    def __class__(self):
        """What code of the user's is told, also by ``isinstance``: not that of numbers of NumPy."""
        asks = is_users(sys._getframe(1).f_globals.get("__name__", ""))
        return self.kind if asks else TracedFloat

    def __getattr__(self, name):
        if self.kind is float:
            raise AttributeError(f"'float' object has no attribute {name!r}")
        if name in _OF_FLOAT64:
            return getattr(self.plain, name)
        if name == "item":
            return lambda *args: getattr(self.leave(), name)(*args) if args else as_python(self)
        return getattr(self.leave(), name)  # what numpy.float64 has besides

    def leave(self) -> float:
        """The number itself, for code that cannot be followed."""
        recorder = current()
        if recorder is not None and self.origin.token is recorder.floats.token:
            recorder.floats.note_leaving(self.origin)
        return self.plain

    def __float__(self):
        frame = sys._getframe(1)
        place = frame.f_globals.get("__name__"), frame.f_code.co_name
        recorder = current()
        if place in _STORED and recorder is not None and not recorder.depth:
            return recorder.floats.store_float(self)
        return float.__float__(self.leave())

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if any(map(is_traced, inputs)):
            return NotImplemented  # arrays of the call know what to do
        recorder = current()
        if recorder is not None and method == "__call__" and not kwargs:
            return recorder.meeting.call_with_numbers(ufunc, inputs)
        return getattr(ufunc, method)(*strip_floats(inputs), **strip_floats(kwargs))

    def __reduce_ex__(self, protocol):
        return self.kind, (float.__float__(self.leave()),)

    def __deepcopy__(self, memo):
        return self.leave()

    def __copy__(self):
        return self.leave()

    def __bool__(self):
        return compared(operator.truth, (self,))

    def __pos__(self):
        return self

    @property
    def real(self):
        return self

    @property
    def imag(self):
        return self.kind(0.0)


#: The classes of numbers that know where they come from; `traced_int` adds its own.
FOLLOWED: set[type] = {TracedFloat}
TracedFloat.__name__ = "float"  # in texts of errors


LEAVING[TracedFloat] = TracedFloat.leave


def strip_floats(thing):
    """`thing` with plain floats in lists, tuples and dicts, for code that cannot be followed."""
    kind = type(thing)
    if kind in FOLLOWED:
        return thing.leave()
    if kind in (tuple, list):
        return kind([strip_floats(t) for t in thing])
    if kind is dict:
        return {k: strip_floats(t) for k, t in thing.items()}
    return thing


def _part(thing) -> Any:
    """A scalar of this trace, or the number itself; None when it is neither."""
    if type(thing) in FOLLOWED:
        return thing.origin if thing.origin.token is current().floats.token else thing.plain
    return thing if type(thing) in (int, bool, *KINDS) else None


def _has_left(parts: tuple) -> bool:
    return any(type(part) is Left for part in parts)


def _numbers(things) -> tuple:
    return tuple(t.plain if type(t) in FOLLOWED else t for t in things)


def _followed(things: tuple) -> tuple | None:
    """What a recorded operation on `things` is made of; None when it is not to be recorded."""
    recorder = current()
    if recorder is None:
        return None
    parts = tuple(map(_part, things))
    sources = [p for p in parts if isinstance(p, Scalar)]
    if not sources:
        return None
    too_deep = max(s.depth for s in sources) >= _MAX_DEPTH
    if recorder.depth or too_deep or any(p is None for p in parts):
        _keep(sources)
        return None
    return parts


def computed(function: Callable, things: tuple) -> Any:
    """``function(*things)``, recorded where followed numbers take part and the result is one.

    Whole numbers are followed where they are made of such.
    """
    parts = _followed(things)
    if parts is not None and _has_left(parts):
        return current().leaving.compute(function, things, parts)
    if parts is None:
        return function(*_numbers(things))
    try:
        result = function(*_numbers(things))
    except Exception:
        _keep(parts)  # the code may catch it: other numbers go another way
        raise
    kind = type(result)
    if kind in KINDS:
        return TracedFloat(result, _derived(function, parts, kind))
    for part in parts:
        if isinstance(part, Scalar):
            if part.kind is int and kind is int:
                return WHOLE[int](result, _derived(function, parts, int))
            part.must_stay()
    return result


def _derived(function: Callable, parts: tuple, kind: type) -> Derived:
    """What Python has computed; a condition where the code would catch that it cannot be."""
    found = Derived(function, parts, kind)
    recorder = current()
    if function in _SAFE:
        return found
    recorder.trace.fallible.append(found)
    if recorder.nodes.catchers or catches_arithmetic(sys._getframe(1), recorder.frame):
        recorder.trace.conditions.append(Condition(is_computed, (found,), True))
    return found


def _keep(parts: Sequence) -> None:
    """Let the numbers in `parts` have to be what they are."""
    for part in parts:
        if isinstance(part, Scalar):
            part.must_stay()


#: What shows a whole number that is followed.
WHOLE: dict[type, Callable] = {}


def compared(function: Callable, things: tuple) -> Any:
    parts = _followed(things)
    if parts is not None and _has_left(parts):
        return current().leaving.compare(function, things, parts)
    result = function(*_numbers(things))
    if parts is not None:
        current().trace.conditions.append(Condition(function, parts, bool(result)))
    return result


def _understood(other) -> bool:
    """Whether a float computes with `other` by itself; Variables have their own way."""
    return isinstance(other, (int, float, complex, np.generic, np.ndarray))


def _meets_arrays(number) -> bool:
    """Whether NumPy's way with a number beside an array is recorded."""
    recorder = current()
    if type(number.origin) is Left:
        return True
    return recorder is not None and recorder.meeting.fills_in and recorder.floats.follows(number)


def binary(function: Callable, apply: Callable, swapped: bool):
    """A method for an operator that `apply` follows."""

    def method(self, other, *modulus):
        if modulus:
            return pow(*strip_floats((self, other, *modulus)))
        if not _understood(other):
            return NotImplemented
        if isinstance(other, _OF_NUMPY) and type(other) not in KINDS and _meets_arrays(self):
            return NotImplemented  # NumPy asks for `__array_ufunc__`
        if isinstance(other, complex):
            return function(*strip_floats((other, self) if swapped else (self, other)))
        return apply(function, (other, self) if swapped else (self, other))

    return method


def _unary(function: Callable):
    return lambda self: computed(function, (self,))


def _leaving(name: str):
    def method(self, *args):
        return getattr(self.leave(), name)(*strip_floats(args))

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _function = getattr(operator, _name)
    setattr(TracedFloat, f"__{_name}__", binary(_function, computed, False))
    setattr(TracedFloat, f"__r{_name}__", binary(_function, computed, True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(TracedFloat, f"__{_name}__", binary(getattr(operator, _name), compared, False))
for _name in ("neg", "abs"):
    setattr(TracedFloat, f"__{_name}__", _unary(getattr(operator, _name)))
for _name in (
    "__int__", "__trunc__", "__floor__", "__ceil__", "__round__", "__divmod__",
    "__rdivmod__", "__hash__", "__repr__", "__str__", "__format__", "as_integer_ratio", "hex",
    "is_integer", "conjugate", "__getnewargs__",
):  # fmt: skip
    setattr(TracedFloat, _name, _leaving(_name))


def as_python(number):
    """``float(number)`` of a float that each call reads anew: one as well."""
    return number if number.kind is float else computed(float, (number,))


def plain_float(thing):
    """The number that a followed one shows; anything else as it is. Not a use of it."""
    return thing.plain if type(thing) in FOLLOWED else thing


def _is_operand(function, name: str) -> bool:
    """Whether an attribute of a node is the number on one side of an operator of Variables."""
    return name == "value" and type(function).__module__ == "chainer.functions.math.basic_math"


class Floats:
    """The part of the recorder that hands out floats."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.trace = recorder.trace
        self.token = object()
        self.free: frozenset[int] = frozenset()  # which whole numbers among the arguments are, too
        self.scalars: dict = {}
        self.left_at: dict[Scalar, str] = {}  # the user's line where it could not be followed
        self._stored: dict[int, tuple] = {}  # id(float) -> (float, Scalar)
        self.followed_floats: list[TracedFloat] = []  # every one that was handed out

    def note_leaving(self, scalar: Scalar) -> None:
        """The value of a number is taken where it cannot be followed."""
        scalar.must_stay()
        for root in scalar.roots:
            self.left_at.setdefault(root, user_line())

    def float_attribute(self, link, name: str, value: float):
        """What user code gets for ``link.name``."""
        scalar = self.scalars.get((id(link), name))
        if scalar is None:
            scalar = ScalarAttribute(link, name, self.token, type(value))
            self.scalars[id(link), name] = scalar
        return TracedFloat(value, scalar)

    def number_argument(self, index: int, value, name: str):
        """What user code gets for number `index` among the arguments."""
        kind = type(value)
        if kind is int and index not in self.free:
            return value
        scalar = self.scalars.get(index)
        if scalar is None:
            shown = kind if kind is int or kind in KINDS else float
            scalar = self.scalars[index] = ScalarArgument(index, name, self.token, shown)
        if kind is int:
            return self.recorder.ints.counted(WHOLE[int](value, scalar))
        if kind not in KINDS:
            return self.recorder.meeting.short_argument(value, scalar)
        self.followed_floats.append(TracedFloat(value, scalar))
        return self.followed_floats[-1]

    def store_float(self, traced: TracedFloat) -> float:
        """The number itself, to be known again by its identity on a function node."""
        plain = float.__float__(traced)
        self._stored[id(plain)] = (plain, traced.origin)
        return plain

    def take_floats(self, template, function) -> list:
        """Replace the TracedFloats on a node by plain ones: ``(name, inner, Scalar)`` of each."""
        found = []
        for owner, spent, inner, name, thing in attributes_of(template, function):
            if not _is_operand(function, name):
                plain = self.recorder.meeting.settled_number(thing)
                if plain is not thing:
                    owner.__dict__[name] = spent.__dict__[name] = thing = plain
            if type(thing) is float and id(thing) in self._stored:
                thing = TracedFloat(thing, self._stored[id(thing)][1])
            if type(thing) not in FOLLOWED:  # nearly always
                continue
            if self.is_left_whole(thing):
                thing = (
                    self.recorder.leaving.as_python(thing)
                    if _is_operand(function, name)
                    else self.asked(thing)
                )
                owner.__dict__[name] = spent.__dict__[name] = thing
            if type(thing) not in FOLLOWED:
                continue
            if self.is_left(thing) and _is_operand(function, name):
                # An array of the call is the operand, as for numbers of NumPy.
                owner.__dict__[name] = spent.__dict__[name] = self.recorder.leaving.array_of(
                    thing.origin
                )
                continue
            if type(thing.origin) is Left:
                thing.origin.must_stay()
            owner.__dict__[name] = spent.__dict__[name] = thing.plain
            if thing.origin.token is self.token and type(thing.origin) is not Left:
                found.append((name, inner, thing.origin))
        return found

    def is_left(self, thing) -> bool:
        """Whether `thing` is a number that this call has computed."""
        mine = type(thing) in FOLLOWED and thing.origin.token is self.token
        return mine and type(thing.origin) is Left

    def is_left_whole(self, thing) -> bool:
        """Whether that is a whole number."""
        return self.is_left(thing) and thing.origin.kind is int

    def asked(self, thing):
        """A whole number of the call as one of Python: a question; anything else as it is."""
        return operator.index(thing) if self.is_left_whole(thing) else thing

    def shows_float(self, thing) -> bool:
        """Whether `thing` is a followed float of this trace."""
        return type(thing) is TracedFloat and thing.origin.token is self.token

    def shows_scalar(self, thing) -> bool:
        """Whether `thing` is a followed number of this trace that shows one of Python."""
        return self.follows(thing) and thing.kind is not np.float64

    def follows(self, thing) -> bool:
        """Whether `thing` is a number that this trace follows, which the call has not computed."""
        mine = type(thing) in FOLLOWED and thing.origin.token is self.token
        return mine and type(thing.origin) is not Left

    def shown_scalar(self, thing):
        """The Scalar or Value that a followed number of this trace shows; else the thing itself."""
        if self.is_left(thing):
            return thing.origin.value
        if (
            self.recorder.meeting.is_number(thing)
            and thing.kind is np.float64
            and self.trace.dynamic is None
        ):
            return self.recorder.meeting.array_for(thing).origin
        return thing.origin if self.shows_scalar(thing) else strip_floats(thing)

    def finish_floats(self, floats: list) -> None:
        """Put down in the trace which numbers were followed."""
        self.trace.floats, self.trace.left_at = floats, self.left_at
        self.trace.followed = self.scalars
