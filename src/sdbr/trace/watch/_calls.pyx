"""What calling means: Python code is followed; of compiled code this is what it reads."""

import builtins
import collections
import copy
import decimal
import functools
import gc
import itertools
import os
import sys
import threading
import types

from sdbr.devices.arrays import ARRAYS
from sdbr.trace.watch._looks import MISSING
from sdbr.trace.watch._attributes import ABSENT
from sdbr.trace.watch.fingerprints import (
    C_BOUND,
    CONTAINERS,
    SEQUENCES,
    VARIABLES,
    elements_of,
    module_of,
)
from sdbr.trace.watch._following import TRUSTED_FUNCTIONS, is_library_class, is_trusted


import chainer
import numpy as np

from sdbr.trace.watch._attributes cimport (
    attribute,
    has_attribute,
    write_attribute,
    wrote_attribute,
)
from sdbr.trace.watch._containers cimport (
    all_of,
    contains,
    elements,
    equal,
    length,
    subscript,
    through,
    values,
    write_item,
)
from sdbr.trace.watch._escaping cimport again, escape, show
from sdbr.trace.watch._following cimport is_followed
from sdbr.trace.watch._looks cimport class_attribute, is_a, is_atom, lookup
from sdbr.trace.watch._notes cimport Notes

_FUNCTION, _METHOD = types.FunctionType, types.MethodType
_C_UNBOUND = (types.MethodDescriptorType, types.WrapperDescriptorType)
_OWNERLESS = (types.ModuleType, type(None))
_COMPUTED = (str, bytes, int, float, complex, *ARRAYS, np.generic, *VARIABLES)
_GENERATORS = (np.random.RandomState, np.random.Generator)
#: Whose state nobody sees: asked again before replays.
_AGAIN = frozenset({
    np.geterr, np.get_printoptions, np.geterrcall, sys.getrecursionlimit, os.getcwd, os.getpid,
    sys.getdefaultencoding, threading.current_thread, threading.get_ident,
})  # fmt: skip
_MOVING = ("_random", "time")
_OF_THREADS = ("subprocess", "threading", "_thread", "_queue", "concurrent")
_OUTPUT = frozenset({"fileno", "flush", "isatty", "write", "writelines"})
_WRITES = frozenset({
    "__delitem__", "__setitem__", "add", "append", "appendleft", "clear", "discard", "extend",
    "insert", "move_to_end", "pop", "popitem", "popleft", "remove", "reverse", "rotate",
    "setdefault", "sort", "update",
})  # fmt: skip
_WRITES_AND_TELLS = frozenset({"pop", "popitem", "popleft", "reverse", "setdefault", "sort"})


cpdef object call(Notes notes, function, list args, dict kwargs):
    """The code calls ``function(*args, **kwargs)``.

    Returns
    -------
    function or None
        The Python function whose frame comes next.
    """
    kind = type(function)
    if kind is _METHOD:
        notes.read(function, "self", None, function.__self__)
        return call(notes, function.__func__, [function.__self__, *args], kwargs)
    if kind is _FUNCTION:
        return _python(notes, function, args, kwargs)
    if kind in C_BOUND:
        owner = function.__self__
        if not is_a(owner, _OWNERLESS):
            notes.read(function, "self", None, owner)
            return _method(notes, function.__name__, owner, args, kwargs)
        return _compiled(notes, function, args, kwargs)
    if kind in _C_UNBOUND:
        return _method(notes, function.__name__, args[0], args[1:], kwargs) if args else None
    if is_a(function, (functools.partial,)):
        for name in ("func", "args", "keywords"):
            notes.read(function, "attribute", name, getattr(function, name))
        elements(notes, function.args)
        values(notes, function.keywords)
        kwargs = {**function.keywords, **kwargs}
        return call(notes, function.func, [*function.args, *args], kwargs)
    if is_a(function, (type,)):
        return _class(notes, function, args, kwargs)
    if is_a(function, (np.ufunc,)):
        return None
    return _object(notes, function, args, kwargs)


cdef object _python(Notes notes, function, list args, dict kwargs):
    if is_followed(function):
        if not is_library_class(type(function)) or not notes.is_own(function):
            notes.fact(function, "definition")
        return function
    if function in _AGAIN and all([is_atom(x) for x in args]):
        again(notes, function, tuple(args), tuple(kwargs.items()))
        return None
    if function.__name__ in ("__setattr__", "__delattr__"):
        return _writes_attribute(notes, args, kwargs)
    module = function.__module__ or ""
    if module.startswith(_OF_THREADS):
        notes.mark_dynamic(f"{module}.{function.__name__} has to do with other threads")
    _give(notes, module, (*args, *kwargs.values()))
    return None


cdef object _give(Notes notes, str module, tuple things):
    """Code of a library gets things: what Chainer reads of links, it reads by code of theirs."""
    for x in things:
        if is_a(x, (chainer.Link,)) and module.startswith(("chainer", "sdbr")):
            notes.is_own(x) or notes.root(x)
        else:
            escape(notes, x)


cdef object _object(Notes notes, thing, list args, dict kwargs):
    """An object is called that is no function."""
    found = class_attribute(type(thing), "__call__")
    if type(found) is _FUNCTION:
        notes.read(type(thing), "attribute", "__call__", found)
        return call(notes, found, [thing, *args], kwargs)
    module = ""
    if module_of(type(thing)).startswith("_cython_"):
        module = thing.__module__ or ""
        if not is_trusted(module):
            notes.mark_dynamic(f"calls {module}.{thing.__name__}, which is compiled")
    _give(notes, module, (thing, *args, *kwargs.values()))
    return None


cdef object _class(Notes notes, kind, list args, dict kwargs):
    """A class is called: by its ``__new__`` and ``__init__``."""
    maker = class_attribute(type(kind), "__call__")
    if type(maker) is _FUNCTION:
        notes.read(type(kind), "attribute", "__call__", maker)
        return call(notes, maker, [kind, *args], kwargs)
    meaning = MEANINGS.get(id(kind))
    if meaning is not None:
        return meaning(notes, args, kwargs)
    followed = None
    for name in ("__new__", "__init__"):
        found = class_attribute(kind, name)
        found = getattr(found, "__func__", found) if type(found) is staticmethod else found
        if not is_library_class(kind):
            notes.read(kind, "attribute", name, lookup(kind, name)[1])
        if is_followed(found):
            followed = found
    if followed is None:
        _unknown(notes, kind, args, kwargs)
    return followed


cdef object _compiled(Notes notes, function, list args, dict kwargs):
    meaning = MEANINGS.get(id(function))
    if meaning is not None:
        return meaning(notes, args, kwargs)
    if function in _AGAIN and all([is_atom(x) for x in args]):
        again(notes, function, tuple(args), tuple(kwargs.items()))
        return None
    return _unknown(notes, function, args, kwargs)


cdef object _unknown(Notes notes, function, list args, dict kwargs):
    """Compiled code that is not in the table."""
    module = getattr(function, "__module__", None) or ""
    if module in _MOVING:
        notes.mark_dynamic(f"{module}.{function.__name__} gives something else each time")
    elif not (is_a(function, (type,)) or is_trusted(module) or function in TRUSTED_FUNCTIONS):
        name = f"{module}.{function.__name__}"
        notes.mark_dynamic(f"calls {name}, of which nobody knows what it reads")
    _give(notes, module, (*args, *kwargs.values()))


cdef object _method(Notes notes, str name, owner, list args, dict kwargs):
    """A compiled method of an object."""
    if name == "__call__":
        return call(notes, owner, args, kwargs)
    if name in ("__init__", "__new__", "__init_subclass__", "__enter__", "__exit__"):
        return None
    if name in ("__setattr__", "__delattr__") and args:
        return _writes_attribute(notes, [owner, *args], kwargs)
    if name == "__getattribute__" and args and type(args[0]) is str:
        return attribute(notes, owner, args[0])
    if is_a(owner, (type,)):
        return _of_class(notes, name, owner, args, kwargs)
    if is_a(owner, CONTAINERS) or type(owner) is types.MappingProxyType:
        return _of_container(notes, name, owner, args, kwargs)
    if not is_a(owner, _COMPUTED):
        module = module_of(type(owner))
        if is_a(owner, _GENERATORS):
            notes.reads.draws.append(name)
        elif type(owner).__name__ == "lock" or module.startswith(_OF_THREADS):
            notes.mark_dynamic("waits for other threads")
        elif module == "_io" and name not in _OUTPUT and not hasattr(owner, "getvalue"):
            notes.mark_dynamic(f"reads a file: {name}")
        elif module in ("random", *_MOVING):
            notes.mark_dynamic(f"{type(owner).__qualname__}.{name} gives something else each time")
        else:
            escape(notes, owner)
    elif name in ("format", "join", "format_map", "__format__", "__mod__"):
        for x in (*args, *kwargs.values()):
            show(notes, x)
    _give(notes, module_of(type(owner)), (*args, *kwargs.values()))
    return None


cdef object _of_class(Notes notes, str name, owner, list args, dict kwargs):
    if name in ("__subclasses__", "mro"):
        notes.fact(owner, "subclasses" if name == "__subclasses__" else "bases")
        return None
    for x in (*args, *kwargs.values()):
        escape(notes, x)
    return None


cdef object _of_container(Notes notes, str name, owner, list args, dict kwargs):
    is_dict = is_a(owner, (dict, types.MappingProxyType))
    if is_dict and args and name in ("get", "__getitem__"):
        if name == "get" and class_attribute(type(owner), "__missing__") is not MISSING:
            contains(notes, owner, args[0])
        subscript(notes, owner, args[0])
    elif is_dict and name in ("items", "values", "copy"):
        values(notes, owner)
    elif name == "__contains__" and args:
        contains(notes, owner, args[0])
    elif is_a(owner, SEQUENCES) and name == "__getitem__" and args:
        subscript(notes, owner, args[0])
    elif name == "__len__":
        length(notes, owner)
    elif name in _WRITES:
        if name in _WRITES_AND_TELLS:
            escape(notes, owner)
        if name in ("__setitem__", "__delitem__") and args:
            write_item(notes, owner, args[0])
        else:
            for x in args if name in ("extend", "update") else ():
                all_of(notes, x)
            notes.wrote(owner, "*", None)
    elif name in ("keys", "__iter__", "__reversed__", "copy"):
        through(notes, owner)
    else:
        for x in (owner, *args, *kwargs.values()):
            escape(notes, x)


# --- functions with a meaning -------------------------------------------------------------------
#: Address of a compiled function or class -> what calling it reads.
MEANINGS: dict = {}


def _means(*functions):
    def enter(meaning):
        MEANINGS.update(dict.fromkeys(map(id, functions), meaning))  # no ``__hash__`` is asked
        return meaning

    return enter


@_means(builtins.getattr)
def _getattr(notes, args, kwargs):
    if len(args) == 3 and lookup(args[0], args[1])[0] == ABSENT:
        has_attribute(notes, args[0], args[1])
    if len(args) > 1:
        attribute(notes, args[0], args[1])


@_means(builtins.hasattr)
def _hasattr(notes, args, kwargs):
    if len(args) == 2:
        has_attribute(notes, args[0], args[1])


@_means(builtins.setattr, builtins.delattr)
def _sets_attribute(notes, args, kwargs):
    if len(args) > 1:
        write_attribute(notes, args[0], args[1])


cdef object _writes_attribute(Notes notes, args, kwargs):
    if len(args) > 1:
        wrote_attribute(notes, args[0], args[1])


@_means(builtins.type)
def _type(notes, args, kwargs):
    if len(args) == 1 and not notes.is_own(args[0]):
        notes.read(args[0], "class", None, type(args[0]))
    for x in args[1:]:
        escape(notes, x)


@_means(builtins.callable)
def _callable(notes, args, kwargs):
    _type(notes, args, kwargs)


@_means(builtins.isinstance)
def _isinstance(notes, args, kwargs):
    """What is no plain class may count others to it later."""
    if len(args) > 1 and not notes.is_own(args[0]):
        for kind in _unusual(notes, args[1]):
            notes.fact(args[0], "isinstance", kind)
    elif len(args) > 1:
        _issubclass(notes, (type(args[0]), args[1]), kwargs)


@_means(builtins.issubclass)
def _issubclass(notes, args, kwargs):
    for kind in _unusual(notes, args[1]) if len(args) > 1 else ():
        notes.fact(args[0], "issubclass", kind)


cdef list _unusual(Notes notes, kinds):
    """Those of these classes that say themselves what is of them, by code of a library."""
    kinds = kinds if type(kinds) is tuple else (kinds,)
    elements(notes, kinds)
    usual = class_attribute(type, "__instancecheck__")
    found = [(kind, class_attribute(type(kind), "__instancecheck__")) for kind in kinds]
    return [k for k, check in found if check is not usual]


@_means(builtins.len)
def _len(notes, args, kwargs):
    for x in args:
        length(notes, x)


@_means(builtins.bool)
def _bool(notes, args, kwargs):
    for x in args:
        length(notes, x)


@_means(builtins.vars)
def _vars(notes, args, kwargs):
    for x in args:
        attribute(notes, x, "__dict__")


@_means(builtins.dir)
def _dir(notes, args, kwargs):
    for x in args:
        if not is_followed(class_attribute(type(x), "__dir__")):
            notes.fact(x, "dir")


@_means(builtins.id)
def _id(notes, args, kwargs):
    if notes.layout is None or notes.layout.code.co_filename != copy.__file__:  # its memo
        for x in args:
            notes.fact(x, "identity")


@_means(
    builtins.globals, builtins.locals, builtins.super, object, decimal.getcontext, sys.exc_info,
    sys._getframe,
)  # fmt: skip
def _nothing(notes, args, kwargs):
    """Reads nothing by itself."""


@_means(builtins.eval, builtins.exec)
def _eval(notes, args, kwargs):
    """What the text does is followed."""
    notes.evaluates = len(args) == 1 and not kwargs


@_means(gc.freeze, gc.unfreeze)
def _freezes(notes, args, kwargs):
    notes.fresh.lose()
    notes.mark_dynamic("moves all objects out of the collector's sight")


@_means(builtins.iter)
def _iter(notes, args, kwargs):
    if len(args) == 1:
        through(notes, args[0])


@_means(builtins.next)
def _next(notes, args, kwargs):
    advance(notes, args[0] if args else None)


cpdef object advance(Notes notes, iterator):
    """The code takes what an iterator gives next."""
    found = class_attribute(type(iterator), "__next__")
    if not notes.is_own(iterator) and not is_followed(found):
        notes.mark_dynamic(f"moves a {type(iterator).__qualname__} that others may move")


@_means(builtins.print, builtins.repr, str, builtins.format, builtins.hash, builtins.ascii)
def _text(notes, args, kwargs):
    for x in (*args, *kwargs.values()):
        show(notes, x)


@_means(
    enumerate, zip, reversed, list, tuple, any, all, itertools.chain, itertools.product,
    itertools.islice, itertools.cycle, itertools.permutations, itertools.combinations,
    itertools.repeat, collections.deque,
)  # fmt: skip
def _goes_through(notes, args, kwargs):
    for x in args:
        all_of(notes, x)


@_means(
    set, frozenset, dict, collections.OrderedDict, collections.Counter, sum, min, max, sorted,
    itertools.accumulate,
)  # fmt: skip
def _compares(notes, args, kwargs):
    """Elements are compared, hashed or added up, perhaps by compiled code of theirs."""
    _goes_through(notes, args, kwargs)
    for x in args:
        if is_a(x, CONTAINERS) and "key" not in kwargs:
            for element in elements_of(x):
                equal(notes, element, None)
    for x in kwargs.values():
        escape(notes, x)


@_means(map, filter, functools.reduce)
def _maps(notes, args, kwargs):
    for x in args[:1]:
        escape(notes, x)
    for x in args[1:]:
        through(notes, x)
