"""What user code that is traced gets to hear when it asks for the type of an array.

The name ``type`` is that of a builtin, which nobody can patch; but the code looks among the
globals of its module first. For the time of a trace these hold a ``type`` that answers as
define-by-run does, and a ``memoryview`` that notices.
"""

from __future__ import annotations

import builtins
import contextlib
import types
from collections.abc import Iterator

from sdbr.base.reasons import Remedy
from sdbr.trace.arrays.asking import ask_layout
from sdbr.trace.arrays.stripping import LEAVING, TRACED, is_traced, strip
from sdbr.trace.arrays.telling import leave_by
from sdbr.trace.arrays.traced_float import FOLLOWED, computed, strip_floats
from sdbr.trace.code.class_tests import TESTS, passes_on, tells_class
from sdbr.trace.current import current

import numpy as np


class _Asking(type):
    def __call__(cls, *args, **kwargs):
        if cls is not Type or len(args) != 1 or kwargs:
            return builtins.type.__call__(type if cls is Type else cls, *args, **kwargs)
        (thing,) = args
        kind = builtins.type(thing)
        if kind in TRACED:
            return thing.__class__
        if kind in FOLLOWED:
            return thing.kind
        return Type if kind is builtins.type or kind is _Asking else kind

    def __instancecheck__(cls, thing):
        return isinstance(thing, builtins.type) if cls is Type else super().__instancecheck__(thing)

    def __subclasscheck__(cls, other):
        return issubclass(other, builtins.type) if cls is Type else super().__subclasscheck__(other)


class Type(type, metaclass=_Asking):
    """``type`` for user code."""


class _Viewing(type):
    def __call__(cls, thing):
        if is_traced(thing):
            ask_layout()
            leave_by("a value left NumPy through memoryview()", Remedy.STAY_ARRAYS, thing)
            thing = strip(thing)
        return builtins.memoryview(thing)

    def __instancecheck__(cls, thing):
        return isinstance(thing, builtins.memoryview)

    def __getattr__(cls, name):
        return getattr(builtins.memoryview, name)


class View(metaclass=_Viewing):
    """``memoryview`` for user code."""


def whole_of(thing):
    """What ``int(thing)`` is to traced code; None where that is a question, or of no array."""
    recorder = current()
    if recorder is None or recorder.depth:
        return None
    if recorder.is_left_whole(thing) or (recorder.follows(thing) and thing.kind is int):
        return thing
    if is_traced(thing) and strip(thing).size == 1:
        return recorder.leave_as_whole(thing, "a value left NumPy through int()")
    return None


def float_of(thing):
    """What ``float(thing)`` is to traced code; None where nothing of the call is meant."""
    recorder = current()
    if recorder is None or recorder.depth:
        return None
    if recorder.is_left(thing) or recorder.shows_float(thing):
        return recorder.as_python(thing)
    if type(thing) in FOLLOWED:
        return computed(float, (thing,))
    if is_traced(thing) and strip(thing).size == 1:
        return recorder.leave_as_float(thing, "a value left NumPy through float()")
    return None


class _Converting(type):
    """A class of numbers in all that it can be asked, but for what it makes of the call's."""

    def __call__(cls, *args, **kwargs):
        number = cls.followed(args[0]) if len(args) == 1 and not kwargs else None
        return cls.builtin(*args, **kwargs) if number is None else number

    def __instancecheck__(cls, thing):
        return isinstance(thing, cls.builtin)

    def __subclasscheck__(cls, other):
        return other is cls or issubclass(other, cls.builtin)

    def __eq__(cls, other):
        return other is cls or other is cls.builtin

    def __hash__(cls):
        return hash(cls.builtin)

    def __repr__(cls):
        return repr(cls.builtin)

    def __getattr__(cls, name):
        return getattr(cls.builtin, name)


class Float(metaclass=_Converting):
    """``float`` for user code."""

    builtin = float
    followed = staticmethod(float_of)
    __match_args__ = ("real",)  # of a float that is the number itself: ``case float(x)``
    dtype = np.dtype(float)  # by which NumPy knows it


class Int(metaclass=_Converting):
    """``int`` for user code."""

    builtin = int
    followed = staticmethod(whole_of)
    dtype = np.dtype(int)


LEAVING[_Converting] = lambda cls: cls.builtin


class _Power:
    """``pow`` for user code: of three numbers Python asks the first one alone."""

    _sdbr_stands_in = True

    def __call__(self, *args, **kwargs):
        if len(args) + len(kwargs) > 2:
            args, kwargs = strip_floats(args), strip_floats(kwargs)
        return builtins.pow(*args, **kwargs)

    def __eq__(self, other):
        return other is self or other is builtins.pow

    def __hash__(self):
        return hash(builtins.pow)

    def __repr__(self):
        return repr(builtins.pow)

    def __getattr__(self, name):
        return getattr(builtins.pow, name)


LEAVING[_Power] = lambda power: builtins.pow

#: Names of builtins, and what stands in their place.
ASKED = {"type": Type, "memoryview": View, "float": Float, "int": Int, "pow": _Power()}


def _may_convert(around, holder: dict, name: str) -> bool:
    """Whether `Float` is as good as ``float`` to all code that looks among these globals."""
    if around.opaque or any(tells_class(code, name) for code in _codes(holder)):
        return False
    return next(_hands_on(around, holder, name), None) is None


def _hands_on(around, holder: dict, name: str) -> Iterator[tuple[types.FunctionType, int]]:
    """Where the class may get to code that compares it with what ``type`` gives."""
    if not around.asks_types:
        return
    shadowed = not TESTS.isdisjoint(holder)
    for function in around.functions:
        if function.__globals__ is holder and name in function.__code__.co_names:
            line = (
                function.__code__.co_firstlineno if shadowed else passes_on(function.__code__, name)
            )
            if line:
                yield function, line


def why_plain(around, name: str) -> str:
    """Why ``name()`` of code that is traced gives numbers that are not followed; may be empty."""
    if around.opaque:
        return f"; not followed because of {around.opaque}"
    if name in ("float", "int"):
        for holder, asked in around.askers:
            if asked == name and holder.get(name) is not ASKED[name]:
                for function, line in _hands_on(around, holder, name):
                    return (
                        f"; not followed: {function.__name__} hands on the class {name!r} at "
                        f"{function.__code__.co_filename}:{line}, and the code asks for types "
                        f"(isinstance(x, {name}) is followed)"
                    )
                code = next(code for code in _codes(holder) if tells_class(code, name))
                return (
                    f"; not followed: {code.co_name} tells the class {name!r} by identity at "
                    f"{code.co_filename}:{code.co_firstlineno}"
                )
    return ""


def _codes(holder: dict) -> Iterator[types.CodeType]:
    for thing in list(holder.values()):
        members = list(vars(thing).values()) if isinstance(thing, builtins.type) else [thing]
        for member in members:
            # Nothing is asked of other objects, whose `__getattr__` may raise anything.
            if builtins.type(member) is types.FunctionType and member.__globals__ is holder:
                yield member.__code__


@contextlib.contextmanager
def answering(around) -> Iterator[None]:
    """Put the names of `ASKED` into the globals of modules that read them and have none themselves.

    Parameters
    ----------
    around : Outside
        Its `askers` are globals of functions, and the name of what one of these reads.
    """
    put: list[tuple[dict, str]] = []
    try:
        for holder, name in around.askers:
            if name not in holder and (
                name not in ("float", "int") or _may_convert(around, holder, name)
            ):
                put.append((holder, name))
                holder[name] = ASKED[name]
        yield
    finally:
        for holder, name in put:
            if holder.get(name) is ASKED[name]:
                del holder[name]
