"""What user code that is traced gets to hear when it asks for the type of an array.

The name ``type`` is that of a builtin, which nobody can patch; but the code looks among the
globals of its module first. For the time of a trace these hold a ``type`` that answers as
define-by-run does, and a ``memoryview`` that notices.
"""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Iterator

from sdbr.base.reasons import Remedy
from sdbr.trace.arrays.stripping import TRACED, is_traced, strip
from sdbr.trace.arrays.telling import leave_by
from sdbr.trace.arrays.traced_float import TracedFloat


class _Asking(type):
    def __call__(cls, *args, **kwargs):
        if cls is not Type or len(args) != 1 or kwargs:
            return builtins.type.__call__(type if cls is Type else cls, *args, **kwargs)
        (thing,) = args
        kind = builtins.type(thing)
        if kind in TRACED:
            return thing.__class__
        if kind is TracedFloat:
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
            leave_by("a value left NumPy through memoryview()", Remedy.STAY_ARRAYS, thing)
            thing = strip(thing)
        return builtins.memoryview(thing)

    def __instancecheck__(cls, thing):
        return isinstance(thing, builtins.memoryview)

    def __getattr__(cls, name):
        return getattr(builtins.memoryview, name)


class View(metaclass=_Viewing):
    """``memoryview`` for user code."""


#: Names of builtins, and what stands in their place.
ASKED = {"type": Type, "memoryview": View}


@contextlib.contextmanager
def answering(askers: list[tuple[dict, str]]) -> Iterator[None]:
    """Put the names of `ASKED` into the globals of modules.

    Parameters
    ----------
    askers : list of (dict, str)
        Globals of functions, and the name that one of these reads and the module has not itself.
    """
    put: list[tuple[dict, str]] = []
    try:
        for holder, name in askers:
            if name not in holder:
                put.append((holder, name))
                holder[name] = ASKED[name]
        yield
    finally:
        for holder, name in put:
            if holder.get(name) is ASKED[name]:
                del holder[name]
