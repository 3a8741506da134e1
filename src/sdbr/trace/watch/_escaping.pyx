"""What code gets hold of that is not followed: all that is in it is guarded."""

import decimal
import functools
import types

from sdbr.devices.arrays import ARRAYS
from sdbr.trace.watch.fingerprints import ATOMS, C_BOUND, CONTAINERS, VARIABLES, elements_of
from sdbr.trace.watch._following import is_library_class
from sdbr.trace.code._library import is_library_name

import chainer
import numpy as np

from sdbr.trace.watch._following cimport is_followed
from sdbr.trace.watch._looks cimport is_a, item
from sdbr.trace.watch._notes cimport Notes

_FUNCTION, _METHOD = types.FunctionType, types.MethodType
#: What leads nowhere, or what is read through is seen otherwise.
_CLOSED = (
    types.CodeType, types.FrameType, types.GeneratorType, np.ufunc, np.dtype, np.generic,
    chainer.FunctionNode, chainer.Optimizer, type(chainer.config),
)  # fmt: skip
_SPACES = (type, types.ModuleType)
_PARAMETER = (chainer.Parameter,)


def context():
    """What numbers of `decimal` are computed with."""
    now = decimal.getcontext()
    return now.prec, now.rounding


cpdef object escape(Notes notes, thing):
    """Code that is not followed gets `thing`."""
    kind = type(thing)
    if kind in ATOMS:
        if kind is decimal.Decimal:
            again(notes, context)
        return
    if is_a(thing, _CLOSED) or (is_a(thing, VARIABLES) and not is_a(thing, _PARAMETER)):
        return
    if is_a(thing, ARRAYS) and thing.dtype != object:
        return
    if not notes.is_new_to(thing):
        return
    if is_a(thing, _SPACES):
        name = thing.__name__ if kind is types.ModuleType else thing.__module__
        if not is_library_name(name):
            notes.fact(thing, "values")
        return
    if kind is _FUNCTION:
        if not is_library_name(thing.__globals__.get("__name__") or ""):
            notes.fact(thing, "definition")
        return
    if kind is _METHOD or kind in C_BOUND:
        _bound(notes, thing)
    elif is_a(thing, (functools.partial,)):
        for name in ("func", "args", "keywords"):
            notes.read(thing, "attribute", name, getattr(thing, name))
        escape(notes, thing.func)
        escape(notes, thing.args)
        escape(notes, thing.keywords)
    elif is_a(thing, _PARAMETER):
        notes.fact(thing, "state")
    elif notes.is_own(thing):
        _own(notes, thing)
    else:
        notes.fact(thing, "contents")


cdef object _bound(Notes notes, thing):
    owner = thing.__self__
    if is_a(owner, (types.ModuleType, type, type(None))):
        return
    notes.read(thing, "self", None, owner)
    if not is_followed(thing):
        escape(notes, owner)


cdef object _own(Notes notes, thing):
    """The object was made by the call: what it holds may be from outside."""
    if is_a(thing, CONTAINERS):
        for x in elements_of(thing):
            escape(notes, x)
            if is_a(thing, (dict,)):
                escape(notes, item(thing, x) if type(x) is str else thing.get(x))
    elif not is_a(thing, (chainer.Link, *VARIABLES)) and not is_library_class(type(thing)):
        for x in list(getattr(thing, "__dict__", {}).values()):
            escape(notes, x)


cpdef object show(Notes notes, thing):
    """Code asks for the text of `thing`."""
    if is_a(thing, VARIABLES):
        if not notes.is_own(thing):
            notes.fact(thing, "contents")
    elif is_a(thing, CONTAINERS):
        for x in elements_of(thing):
            show(notes, item(thing, x) if is_a(thing, (dict,)) and type(x) is str else x)
    escape(notes, thing)


cpdef object again(Notes notes, function, tuple args = (), tuple kwargs = ()):
    """The code asks a function of a library that is asked again before replays."""
    notes.fact(function, "result", (args, kwargs))
