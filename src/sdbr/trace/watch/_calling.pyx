"""What an instruction calls, and with which arguments."""

import types

from sdbr.trace.watch._calls import MEANINGS as _MEANINGS
from sdbr.trace.watch._frames import NULLS

from cpython.object cimport PyObject

from sdbr.trace.watch._calls cimport call
from sdbr.trace.watch._containers cimport through, values
from sdbr.trace.watch._executed cimport Executed
from sdbr.trace.watch._frames cimport VERSION
from sdbr.trace.watch._looks cimport is_a

cdef bint BEFORE_313 = VERSION < 0x030D0000
cdef object Nulls = NULLS
cdef dict MEANINGS = _MEANINGS
cdef object Function = types.FunctionType


cdef int call_of(Executed w, int n, tuple names, int above) except -1:
    """A callable and perhaps the object that it is a method of, `n` arguments, `above` others."""
    upper, lower = w.at(above + n), w.at(above + n + 1)
    if BEFORE_313:
        function, first = (upper, Nulls) if lower is Nulls else (lower, upper)
    else:
        function, first = lower, upper
    return called(w, function, first, n, names, above)


cdef int called(Executed w, function, first, int n, tuple names, int above) except -1:
    w.callee = function
    if type(function) is Function and <size_t><PyObject *>function in w.entered_before:
        w.function = function
        return 0
    cdef int i, n_plain = n - len(names)
    meaning = MEANINGS.get(<size_t><PyObject *>function)
    cdef list args = [w.at(above + n - 1 - i) for i in range(n)]
    cdef dict kwargs = {}
    if names:
        kwargs = dict(zip(names, args[n_plain:]))
        del args[n_plain:]
    if first is not Nulls:
        args.insert(0, first)
    if meaning is not None:
        meaning(w, args, kwargs)
        return 0
    w.function = call(w, function, args, kwargs)
    if w.function is function and <size_t><PyObject *>function in w.homes:
        w.entered_before.add(<size_t><PyObject *>function)
    return 0


cdef int call_all(Executed w, int n) except -1:
    """``function(*args, **kwargs)``, these if `n`."""
    args, kwargs = w.at(n), w.at(0) if n else {}
    function = w.at(n + 1 if BEFORE_313 else n + 2)
    w.callee = function
    through(w, args)
    if is_a(kwargs, (dict,)):
        values(w, kwargs)
    w.function = call(w, function, list(args) if is_a(args, (list, tuple)) else [], dict(kwargs))
    return 0
