"""What an instruction calls, and with which arguments; what is put in the place of these."""

import functools
import itertools
import operator
import types

from sdbr.base.reasons import Remedy
from sdbr.devices.arrays import PLAIN
from sdbr.trace.arrays.asked import (
    HOLDING,
    STANDS,
    asks_another,
    dispatched,
    enter,
    gives_in_list,
    has_protocol,
    plain,
    plainly,
    power,
)
from sdbr.trace.arrays.stripping import LEAVING, TRACED, holds_known, strip
from sdbr.trace.arrays.telling import leave_by
from sdbr.trace.arrays.traced_float import FOLLOWED, plain_float
from sdbr.trace.code.foreign import is_users
from sdbr.trace.watch._calls import MEANINGS as _MEANINGS
from sdbr.trace.watch._calls import makes_by_itself
from sdbr.trace.watch._escaping import OPERATORS, escape, takes_numbers
from sdbr.trace.watch._frames import NULLS
from sdbr.trace.watch._following import direct, is_stdlib, pass_on, unbound
from sdbr.trace.watch.fingerprints import CONTAINERS, module_of
from sdbr.trace.watch.reads import environment

import chainer
import numpy as np

from cpython.object cimport PyObject

from sdbr.trace.watch._calls cimport call, read_parts, runs_users, undecorated
from sdbr.trace.watch._containers cimport through, values
from sdbr.trace.watch._executed cimport Executed
from sdbr.trace.watch._flowing cimport converts, iterated
from sdbr.trace.watch._following cimport asks
from sdbr.trace.watch._frames cimport VERSION
from sdbr.trace.watch._looks cimport class_attribute, is_a

cdef int GENERATOR = 0x20  # of the flags of code
cdef bint BEFORE_313 = VERSION < 0x030D0000
cdef object Nulls = NULLS
cdef dict MEANINGS = _MEANINGS
cdef object Function = types.FunctionType
cdef object Dispatcher = type(np.sum)
cdef object Cached = functools._lru_cache_wrapper
#: What stands for a builtin, by its address and the number of arguments.
cdef dict Stands = {(id(builtin), n): stands for (builtin, n), stands in STANDS.items()}
cdef dict Builtins = {id(builtin): stands for (builtin, n), stands in STANDS.items()}
#: Compiled functions that call one that they are given: which argument that is.
cdef dict Calling = {
    **dict.fromkeys(map(id, (
        filter, functools.lru_cache, functools.reduce, getattr(operator, "call", map),
        itertools.dropwhile, itertools.filterfalse, itertools.starmap, itertools.takewhile, map,
    )), 0),
    id(functools.partial): 0, id(itertools.accumulate): 1, id(itertools.groupby): 1,
    id(list.sort): -1, id(max): -1, id(min): -1, id(sorted): -1,
}  # fmt: skip
cdef object Slot = types.WrapperDescriptorType
cdef tuple Unbound = (types.MethodDescriptorType, Slot)
cdef tuple Bound = (types.BuiltinMethodType, types.MethodWrapperType)
cdef tuple Links = (chainer.Link,)
cdef tuple Modules = (types.ModuleType,)
cdef tuple Arrays = (np.ndarray, np.generic)
cdef tuple Iterators = (types.GeneratorType, enumerate, filter, map, zip)
#: What keeps numbers, and what asks them.
cdef tuple Keeping = (*CONTAINERS, str, bytes, BaseException)
#: Whose functions compute with arrays, and whose read those in lists where nobody tells.
cdef frozenset Roots = frozenset({"_operator", "chainer", "cupy", "numpy", "operator", "sdbr"})
cdef frozenset Reading = frozenset({"numpy", "scipy"})
cdef frozenset Named = frozenset({types.FunctionType, types.BuiltinFunctionType, type})
cdef frozenset Computing = frozenset({int, float, complex, bool})
cdef frozenset NotTaking = frozenset({
    "builtins", "chainer", "cupy", "functools", "itertools", "numpy", "sdbr", "types",
})  # fmt: skip


cdef object stand_in(Executed w, function, list args, int n_plain, bint more = False):
    """What is called in the place of a function that tells nobody what it does with what is of the
    call; None for the function itself. In `args`, what it can do with takes the place of what it
    cannot: the first `n_plain` of them are given by place; `more`: nobody knows yet what else."""
    cdef int i, n
    kind = type(function)
    address = id(unbound(function))
    if kind in Bound or kind is functools.partial:
        read_parts(w, function)
    if address in Calling:
        at = Calling[address]
        for i in range(len(args)):
            if i == at or i >= n_plain:
                found = stand_in(w, args[i], [], 0, True) or undecorated(args[i])
                args[i] = args[i] if found is None else found
        return None
    if kind is functools.partial:
        n = len(function.args)
        given = [*function.args, *args, *function.keywords.values()]
        found = [*given]
        for i in range(len(found) if uses(function.func) else 0):
            if i < n or i >= n + len(args):
                found[i] = shown(w, found[i])
        stands = stand_in(w, function.func, found, n + n_plain, more)
        args[:] = found[n:n + len(args)]
        if stands is None and all([x is y for x, y in zip(found, given)]):
            return None
        keywords = dict(zip(function.keywords, found[n + len(args):]))
        return functools.partial(stands or function.func, *found[:n], **keywords)
    if more:
        found = Builtins.get(address)
    elif any([type(x) in LEAVING or type(x) in TRACED and is_users_code(w) for x in args]):
        found = Stands.get((address, len(args)))
        found = found if found is power or n_plain == len(args) else None
    else:
        found = None
    return found or instead(w, function) or past(function, args, more) \
        or of_library(w, function, None if more else args)


cdef object shown(Executed w, thing):
    """What stands for an array from outside; else the thing itself."""
    view = w.view_of(<PyObject *>thing, True) if type(thing) in PLAIN else None
    return thing if view is None else view


cdef bint is_users_code(Executed w) except -1:
    return is_users((<object>w.top).f_globals.get("__name__", ""))


cdef object of_library(Executed w, function, list args):
    """What stands for a function of NumPy's or SciPy's that reads the arrays which it gets: those
    in lists, or all. Where `args` are not known yet, it may."""
    cdef bint listed = any([is_list(x) and gives_in_list(x) for x in args or ()])
    cdef bint given = any([type(x) in TRACED or type(x) in LEAVING for x in args or ()])
    if not (listed or given or args is None) or not callable(function):
        return None
    bare = function
    if type(function) is types.MethodType and type(function.__func__) is Function:
        bare = function.__func__
    if computing(bare) not in Reading:
        return None
    if not has_protocol(bare):
        if args is not None:
            args[:] = enter(bare, args)
            return None
        if bare is not function or type(function) not in Named:  # what its object holds counts, too
            escape(w, function)
        return dispatched(function)
    passes = type(function) is Dispatcher and args is not None and asks_another(function, args)
    if not (listed or passes or args is None):
        return None
    if listed and environment() != w.settings:  # which replays do not set
        w.mark_dynamic("computes with arrays in lists under settings of its own for warnings")
    return dispatched(function)


cdef bint is_list(thing) except -1:
    """Whether elements are known without code of the user's, or without anybody's who is seen."""
    if is_a(thing, CONTAINERS):
        return True
    found = class_attribute(type(thing), "__getitem__")
    return type(found) is Function and is_stdlib(found.__code__.co_filename)


cdef object instead(Executed w, function):
    """What stands for a function that code has by a name of its own, where no patch reaches; or
    for a method of an array from outside, which NumPy tells nobody of."""
    if type(function) in Bound and type(function.__self__) in PLAIN:
        if function.__name__ == "__getitem__":
            w.lets_move(<PyObject *>function.__self__)
        view = w.view_of(<PyObject *>function.__self__, True)
        return None if view is None else getattr(view, function.__name__)
    return patched(w, function)


cdef object patched(Executed w, function):
    """What is in the place of a function that code has by a name of its own."""
    bare = direct(function)
    return bare if w.stands is None else w.stands(bare or function) or bare


cdef int make_plain(function, list args) except -1:
    """Let numbers be Python's own, where compiled code takes or refuses others."""
    cdef bint taken = False
    while type(function) is functools.partial:
        function = function.func
    for i, x in enumerate(args):
        kind = type(x)
        if kind in FOLLOWED and type(function) is Function and computing(function) == "numpy":
            args[i] = plain(x)  # of arrays NumPy's own code is told by theirs
            continue
        is_iterator = kind in Iterators or module_of(kind) == "itertools"
        if kind in LEAVING or is_iterator or is_a(x, HOLDING):
            taken = taken or takes(function) or (
                asks(function) and any([takes_numbers(type(y)) for y in args]))
            if not taken:
                return 0
            args[i] = map(plain, x) if is_iterator else plain(x)
    return 0


cdef bint takes(function) except -1:
    """Whether a function is compiled code of which nobody knows that it asks numbers."""
    kind = type(function)
    if kind is types.BuiltinFunctionType:
        owner = function.__self__
        if not is_a(owner, (types.ModuleType,)):
            return is_taking(owner if is_a(owner, (type,)) else type(owner))
        root = (function.__module__ or "").partition(".")[0]
        known = <size_t><PyObject *>function in MEANINGS or asks(function)
        return not known and root not in ("numpy", "cupy")
    if kind is types.MethodWrapperType:
        return function.__name__ in OPERATORS and is_taking(type(function.__self__))
    if kind in Unbound:
        named = kind is types.MethodDescriptorType or function.__name__ in OPERATORS
        return named and is_taking(function.__objclass__)
    if is_a(function, (type,)):
        known = <size_t><PyObject *>function in MEANINGS
        return not known and makes_by_itself(function) and is_taking(function)
    if kind is Function or kind is Cached:
        return kind is Cached
    return is_taking(kind) and (
        type(class_attribute(kind, "__call__")) is types.WrapperDescriptorType)


cdef bint is_taking(kind) except -1:
    """Whether compiled code of a class may take values of numbers."""
    if kind in Computing:
        return True
    root = module_of(kind).partition(".")[0]
    return root not in NotTaking and not issubclass(kind, Keeping) and (
        <size_t><PyObject *>kind not in MEANINGS)


cdef int beside(Executed w) except -1:
    """An operator gets arrays from outside; or, that of compiled code, a number: as one of Python's
    own."""
    w.show(1, True)
    w.show(0, True)
    one, other = w.at(1), w.at(0)
    if type(one) in FOLLOWED and takes_numbers(type(other)):
        w.put(1, one.leave())
    elif type(other) in FOLLOWED and takes_numbers(type(one)):
        w.put(0, other.leave())
    elif type(one) in (str, bytes) and type(other) in (tuple, dict):
        w.put(0, plain(other))
    return 0


cdef int indexed(Executed w, int i, key) except -1:
    """An array from outside is indexed, for which there is what stands for it. What arrays of the
    call pick is something else each time, from arrays that nobody knows as well."""
    if not holds_known(key):
        return w.show(i, True)
    w.show_written(i)
    thing = w.at(i)
    if type(thing) in PLAIN and w.shows is not None:
        w.put(i, w.shows(thing, None, True))
    return 0


cdef int is_one(Executed w, int op, int arg) except -1:
    """The code asks whether two things are one: of arrays, those that it was given."""
    one, other = w.at(0), w.at(1)
    w.compare(one, other, True)
    traced = type(one) in TRACED, type(other) in TRACED
    numbers = [plain_float(x) for x in (one, other)]
    if numbers[0] is not one or numbers[1] is not other:
        if type(numbers[0]) is type(numbers[1]):
            w.mark_dynamic("asks whether numbers are one object")
        w.put(0, numbers[0])
        w.put(1, numbers[1])
        return 0
    arrays = [x or is_a(y, Arrays) for x, y in zip(traced, (one, other))]
    if any(traced) and all(arrays) and one is not other:
        w.reads.compares_arrays = True
        w.put(0, strip(one))
        w.put(1, strip(other))
    return 0


cdef int gives_back(Executed w, int op, int arg) except -1:
    """A frame returns or yields: perhaps to compiled code that takes values of numbers."""
    code = w.layout.code
    thing = w.at(0)
    cdef bint taken = any([w.yields.get(x) is escape for x in (<size_t>w.top, id(code))])
    if taken or not w.is_called[-1] and converts(w):
        found = plain(thing)
        if found is not thing:
            w.put(0, found)
    elif not w.is_called[-1] and w.pending and (callee := w.pending[-1][1]) is not None:
        home = callee.__module__ if type(callee) is Function else computing(callee)
        if gives_array(thing) and (home or "").partition(".")[0] in Reading:
            leave_by(f"NumPy reads what {code.co_name}() gives it", Remedy.STAY_ARRAYS, thing)
        elif <size_t><PyObject *>callee not in MEANINGS and not asks(callee):
            found = plain(thing) if code.co_flags & GENERATOR else thing
            w.put(0, found) if found is not thing else iterated(w, thing)
    return 0


cdef bint gives_array(thing) except -1:
    return type(thing) in TRACED or (is_a(thing, CONTAINERS) and gives_in_list(thing))


cdef object past(function, list args, bint is_given):
    """What stands for a function that takes arrays past their class, by being one of that;
    `is_given`: it is called with what nobody knows yet."""
    kind = type(function)
    first = args[0] if args else None
    if kind in Unbound:
        owner = function.__objclass__
        if is_given and owner in Computing:
            return plainly(function)
        if issubclass(owner, Arrays) and (is_given or type(first) in TRACED and (
            not is_a(first, (owner,))
            or type(class_attribute(type(first), function.__name__)) is Function
        )):
            return plainly(function, f"{owner.__module__}.{function.__qualname__}")
        return None
    if is_given and kind is types.MethodWrapperType and type(function.__self__) in Computing:
        return plainly(function)
    return None


cdef int call_of(Executed w, int n, tuple names, int above) except -1:
    """A callable and perhaps the object that it is a method of, `n` arguments, `above` others."""
    upper, lower = w.at(above + n), w.at(above + n + 1)
    if BEFORE_313:
        function, first = (upper, Nulls) if lower is Nulls else (lower, upper)
    else:
        function, first = lower, upper
    return called(w, function, first, n, names, above)


cdef int called(Executed w, function, first, int n, tuple names, int above) except -1:
    cdef int place = above + n if BEFORE_313 and first is Nulls else above + n + 1
    cdef bint is_first = first is not Nulls
    if type(function) is Slot and function.__name__ == "__call__" and (is_first or n > len(names)):
        inner = w.at(above + n if is_first else above + n - 1)
        if class_attribute(type(inner), "__call__") is function:  # ``type(f).__call__(f, x)``
            w.put(place, pass_on)
            n -= not is_first
            function, first, place = inner, Nulls, above + n
    found = undecorated(function) or patched(w, function)
    if found is not None:
        function = found
        w.put(place, found)
    w.callee = function
    if type(function) is Function and <size_t><PyObject *>function in w.entered_before:
        w.function = function
        return 0
    w.runs(function)
    cdef int i, n_plain = n - len(names)
    if uses(function):
        for i in range(n):
            w.show(above + i, True)
    cdef list args = [w.at(above + n - 1 - i) for i in range(n)]
    cdef list given = args.copy()
    cdef dict kwargs = {}
    if first is Nulls or <size_t><PyObject *>function in Calling:
        found = stand_in(w, function, args, n_plain)
    else:
        found = of_library(w, function, args)
    if found is not None:
        w.callee = function = found
        w.put(place, found)
    make_plain(function, args)
    for i in range(n):
        if args[i] is not given[i]:
            w.put(above + n - 1 - i, args[i])
    meaning = MEANINGS.get(<size_t><PyObject *>function)
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
        w.find_defaults(function)
        w.entered_before.add(<size_t><PyObject *>function)
    return 0


cdef bint uses(function) except -1:
    """Whether it computes with arrays that it is given: what stands for those tells of that."""
    return computing(function) in Roots or (is_a(function, Links) and not runs_users(function))


cdef str computing(function):
    """The package of a function that computes with arrays; None where it does not, and "sdbr" for
    what stands for one."""
    kind = type(function)
    home = function.__globals__.get("__name__") if kind is Function else module_of(kind)
    if type(home) is str and home[:11] == "sdbr.trace.":
        return "sdbr"
    if kind in Unbound:
        module = module_of(function.__objclass__)
    elif kind is types.BuiltinFunctionType and not is_a(function.__self__, Modules):
        module = module_of(type(function.__self__))
    else:
        named = kind is Function or kind is types.BuiltinFunctionType or is_a(function, (type,))
        module = function.__module__ if named else module_of(kind)
        if type(module) is str and module[:8] == "_cython_":
            module = function.__module__
    root = module.partition(".")[0] if type(module) is str else ""
    return None if root == "chainer" and kind is not Function else root


cdef int call_all(Executed w, int n) except -1:
    """``function(*args, **kwargs)``, these if `n`."""
    args, kwargs = w.at(n), w.at(0) if n else {}
    cdef int place = n + 1 if BEFORE_313 else n + 2
    function = w.at(place)
    stands = undecorated(function) or patched(w, function)
    if stands is not None:
        function = stands
        w.put(place, stands)
    w.callee = function
    w.runs(function)
    through(w, args)
    if is_a(kwargs, (dict,)):
        values(w, kwargs)
    cdef list found = list(args) if is_a(args, (list, tuple)) else []
    cdef int n_plain = len(found)
    if is_a(kwargs, (dict,)):
        found += kwargs.values()
    cdef list given = found.copy()
    if uses(function):
        found = [shown(w, x) for x in found]
    stands = stand_in(w, function, found, n_plain)
    if stands is not None:
        w.callee = function = stands
        w.put(place, stands)
    make_plain(function, found)
    if any([x is not y for x, y in zip(found[n_plain:], given[n_plain:])]):
        kwargs = dict(zip(kwargs, found[n_plain:]))
        w.put(0, kwargs)
    del found[n_plain:]
    if any([x is not y for x, y in zip(found, given)]):
        w.put(n, tuple(found))
    w.function = call(w, function, found, dict(kwargs))
    return 0
