"""What code gets hold of that is not followed: all that is in it is guarded."""

import contextvars
import decimal
import functools
import gc
import types

from sdbr.base._by_class import ByClass
from sdbr.devices.arrays import ARRAYS, PLAIN
from sdbr.trace.arrays.traced_float import BY_VALUE, TracedFloat
from sdbr.trace.current import current
from sdbr.trace.watch.fingerprints import ATOMS, C_BOUND, CONTAINERS, VARIABLES
from sdbr.trace.code._library import is_library_name
from sdbr.trace.watch.reads import is_ours

import chainer
import numpy as np

from cpython.object cimport PyObject

from sdbr.trace.watch._following cimport is_followed
from sdbr.trace.watch._frames cimport VERSION
from sdbr.trace.watch._looks cimport class_attribute, is_a, is_atom
from sdbr.trace.watch._notes cimport Notes

cdef extern from "Python.h":
    PyObject **fields_at "_PyObject_GetDictPtr"(object) noexcept

#: Whether each object with attributes has a dictionary, which the collector knows only where there
#: is more than numbers and texts in it. Later ones are made where they are asked for.
cdef bint BEFORE_311 = VERSION < 0x030B0000
cdef object Number = TracedFloat
_FUNCTION, _METHOD = types.FunctionType, types.MethodType
#: What leads nowhere, or what is read through is seen otherwise.
_CLOSED = (
    types.CodeType, types.FrameType, np.ufunc, np.dtype, np.generic,
    chainer.FunctionNode, chainer.Optimizer, type(chainer.config),
)  # fmt: skip
_SPACES = (type, types.ModuleType)
_OWNERLESS = (types.ModuleType, type, type(None))
_PARAMETER = (chainer.Parameter,)
#: State of the object that holds them, which nobody else looks into.
_OF_HOLDERS = (
    contextvars.ContextVar, contextvars.Context, contextvars.Token, type(np.random.PCG64().capsule),
)  # fmt: skip


def context():
    """What numbers of `decimal` are computed with."""
    now = decimal.getcontext()
    return now.prec, now.rounding


cpdef object escape(Notes notes, thing, bint passes_on = False, Way way = TAKES):
    """Code that is not followed gets `thing`, and may look at all that is in it.

    What the call itself has made is gone through each time: it may hold more than before. Of
    functions, the results are looked at as well, unless that code only passes them on. `way`
    is that of compiled code with numbers.
    """
    if way != ASKS and type(thing) in ATOMS and type(thing) is not decimal.Decimal:
        return
    cdef list left = [thing]
    cdef set seen = set()
    while left:
        thing = left.pop()
        if way == ASKS:
            meet_any(thing)
        if type(thing) is decimal.Decimal:
            again(notes, context)
            continue
        if type(thing) is Number:
            if way == TAKES:
                thing.leave()
            continue
        if not leads_on(notes, thing, way):
            continue
        if not passes_on:
            watch_results(notes, thing, way)
        if not notes.is_own(thing):
            if notes.is_new_to(thing):
                left += _outside(notes, thing)
        elif id(thing) not in seen:
            seen.add(id(thing))
            if BEFORE_311:
                know_fields(notes, thing)
            left += [x for x in _inside(thing) if not is_a(x, _OF_HOLDERS)]


cdef int know_fields(Notes notes, thing) except -1:
    """The dictionary of an object of the call is the call's as well, unless it was set to another.
    """
    cdef PyObject **at = fields_at(thing)
    if at != NULL and at[0] != NULL and <size_t>at[0] not in notes.homes:
        notes.is_made(<object>at[0])
    return 0


cpdef int meet(one, other) except -1:
    """Two things are computed with or compared: by compiled code of the one's class, perhaps, which
    takes what a number of the call is now."""
    if type(one) is Number and takes_numbers(type(other)):
        one.leave()
    elif type(other) is Number and takes_numbers(type(one)):
        other.leave()
    return 0


cpdef int meet_any(thing) except -1:
    """The same, of things one after the other."""
    recorder = current()
    if recorder is not None and takes_numbers(type(thing)):
        recorder.leaving.leave_all()
    return 0


cpdef bint is_number(thing) noexcept:
    """Whether `thing` is a number of the call whose methods tell what is done with it."""
    return type(thing) is Number


@ByClass
def takes_numbers(kind):
    """Whether operators of a class are compiled code that may take the value of a float."""
    of_numpy = issubclass(kind, (*ARRAYS, np.generic)) and kind is not _NOT_ASKING
    return kind not in _ASKING and not of_numpy and any([
        type(base.__dict__.get(name)) is types.WrapperDescriptorType
        for base in kind.__mro__ if base is not object and base is not int
        for name in _OPERATORS
    ])


#: Floats of the call come first, beside a float itself; the others do not compute with floats. What
#: compares with floats computes with them as well.
_ASKING = frozenset({
    float, Number, bool, str, bytes, list, tuple, dict, set, frozenset, type, type(None),
})  # fmt: skip
#: Before NumPy 2, its numbers of double precision.
_NOT_ASKING = np.float64 if BY_VALUE else None
_OPERATORS = tuple(
    f"__{prefix}{name}__"
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "divmod")
    for prefix in ("", "r", "i")
)
#: Of numbers, those as well that compare them and those of whole ones.
OPERATORS = frozenset(_OPERATORS) | {
    *(f"__{name}__" for name in ("lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "abs")),
    *(f"__{name}__" for name in ("invert", "hash", "repr", "str", "bool", "float", "int", "index")),
    *(f"__{p}{x}__" for x in ("and", "or", "xor", "lshift", "rshift") for p in ("", "r")),
}


def is_asked(notes, thing):
    """Compiled code that asks numbers by their methods gets an element."""
    escape(notes, thing, False, ASKS)


def _is_seen(notes, thing):
    escape(notes, thing, False, IS_SEEN)


cdef tuple WAYS = (escape, is_asked, _is_seen)


cdef int watch_results(Notes notes, thing, Way way) except -1:
    """Where code that is not followed may call `thing`: it gets what that returns, or compares it.
    """
    while type(thing) is _METHOD:
        thing = thing.__func__
    if type(thing) is not _FUNCTION:
        thing = class_attribute(type(thing), "__call__")
    if is_followed(thing):
        notes.yields.setdefault(id(thing.__code__), escape if way == TAKES else None)
        notes.kept.append(thing.__code__)
    return 0


cdef bint leads_on(Notes notes, thing, Way way) except -1:
    """Whether something is reached through `thing` that is not seen otherwise."""
    if type(thing) in ATOMS or is_ours(thing):
        return False
    if type(thing) is types.GeneratorType:
        notes.give_yields(thing, WAYS[way])
        return False
    if is_a(thing, ARRAYS):
        return thing.dtype == object
    return not is_a(thing, _CLOSED) and (not is_a(thing, VARIABLES) or is_a(thing, _PARAMETER))


cdef list _outside(Notes notes, thing):
    """What was there before is guarded: what is in it, or else what is given to go on with."""
    kind = type(thing)
    if is_a(thing, _SPACES):
        name = thing.__name__ if kind is types.ModuleType else thing.__module__
        if not is_library_name(name):
            notes.fact(thing, "values")
    elif kind is _FUNCTION:
        if not is_library_name(thing.__globals__.get("__name__") or ""):
            notes.fact(thing, "definition")
    elif kind is _METHOD or kind in C_BOUND:
        if not is_a(thing.__self__, _OWNERLESS):
            notes.read(thing, "self", None, thing.__self__)
            notes.fact(thing.__self__, "identity")  # by which methods are compared and found
            return _inside(thing)
    elif is_a(thing, (functools.partial,)):
        for name in ("func", "args", "keywords"):
            notes.read(thing, "attribute", name, getattr(thing, name))
        return [thing.func, thing.args, thing.keywords]
    else:
        notes.fact(thing, "state" if is_a(thing, _PARAMETER) else "contents")
    return []


cdef list _inside(thing):
    """What is in an object that the call has made, or in what binds another."""
    kind = type(thing)
    if kind is _METHOD or kind in C_BOUND:
        followed = is_followed(thing) or is_a(thing.__self__, _OWNERLESS)
        return [] if followed else [thing.__self__]
    if kind in (_FUNCTION, types.ModuleType):
        return []
    if is_a(thing, (type,)):
        return list(thing.__mro__[1:])
    if is_a(thing, ARRAYS):
        return list(thing.flat)
    return gc.get_referents(thing)


cpdef int numbers(Notes notes, thing) except -1:
    """The code reads of an array from outside, which tells nobody: its numbers are compared.

    Those of arguments are others each time.
    """
    if type(thing) not in PLAIN or thing.dtype == object:
        return 0
    source = notes.homes.get(id(thing))
    while source is None and type(thing.base) in PLAIN:  # a view of one from outside
        thing = thing.base
        source = notes.homes.get(id(thing))
    if source is not None and source.root().kind not in ("argument", "keyword"):
        notes.fact(thing, "numbers")
    return 0


cpdef object show(Notes notes, thing):
    """Code asks for the text of `thing`: of Variables, too."""
    cdef set seen = set()
    cdef list left = [thing]
    while left:
        part = left.pop()
        if is_atom(part) and type(part) is not decimal.Decimal or id(part) in seen:
            continue
        seen.add(id(part))
        if is_a(part, VARIABLES):
            notes.fact(part, "contents")
        elif is_a(part, CONTAINERS) and notes.is_own(part):
            left += gc.get_referents(part)
        elif is_a(part, ARRAYS):
            notes.numbers_behind(part) if is_ours(part) else numbers(notes, part)
            again(notes, np.get_printoptions)
        elif not says_itself(notes, part):
            escape(notes, part)


cdef bint says_itself(Notes notes, thing) except -1:
    """Whether the text comes from code that is followed."""
    of_class = notes.special(thing, "__str__")
    if of_class is object.__str__:
        of_class = notes.special(thing, "__repr__")
    return is_followed(of_class) and (
        notes.special(thing, "__format__") is object.__format__
        or is_followed(notes.special(thing, "__format__"))
    )


cpdef object again(Notes notes, function, tuple args = (), tuple kwargs = ()):
    """The code asks a function of a library that is asked again before replays."""
    notes.fact(function, "result", (args, kwargs))
