"""What user code that is traced gets to hear when it asks for the type of an array.

The name ``type`` is that of a builtin, which nobody can patch; but the code looks among the
globals of its module first. For the time of a trace these hold a ``type`` that answers as
define-by-run does, and a ``memoryview`` that notices.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import functools
import types
from collections.abc import Iterator

from sdbr.base.reasons import Remedy
from sdbr.trace.arrays.asking import ask_layout
from sdbr.trace.arrays.stripping import LEAVING, TRACED, is_traced, strip
from sdbr.trace.arrays.telling import leave_by
from sdbr.trace.arrays.traced_float import FOLLOWED, computed
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
    if recorder.is_left_whole(thing):
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

#: Names of builtins, and what stands in their place.
ASKED = {"type": Type, "memoryview": View, "float": Float, "int": Int}


def _may_convert(around, holder: dict, name: str) -> bool:
    """Whether `Float` is as good as ``float`` to all code that looks among these globals."""
    return not around.opaque and not any(tells_class(code, name) for code in _codes(holder))


def _codes(holder: dict) -> Iterator[types.CodeType]:
    for thing in list(holder.values()):
        members = list(vars(thing).values()) if isinstance(thing, builtins.type) else [thing]
        for member in members:
            code = getattr(member, "__code__", None)
            if isinstance(code, types.CodeType) and getattr(member, "__globals__", None) is holder:
                yield code


@functools.lru_cache(maxsize=1024)
def tells_class(code: types.CodeType, name: str) -> bool:
    """Whether `code` may compare the class of this name, ``float`` or ``int``, by identity."""
    if name in code.co_names:
        if "type" in code.co_names:
            return True
        before = None
        for instruction in dis.get_instructions(code):
            if instruction.opname == "MATCH_CLASS" and name == "int":  # ``case int(x)``
                return True
            if instruction.opname == "IS_OP" and before == name:
                return True
            before = instruction.argval
    return any(tells_class(c, name) for c in code.co_consts if isinstance(c, types.CodeType))


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
