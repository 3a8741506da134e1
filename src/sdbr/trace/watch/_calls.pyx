"""What calling means: Python code is followed; of compiled code this is what it reads."""

import contextvars
import functools
import itertools
import operator
import os
import sys
import threading
import types
import weakref

from sdbr.devices.arrays import ARRAYS
from sdbr.trace.arrays.stripping import holds_known
from sdbr.trace.code._library import COMPILED, is_library_name
from sdbr.trace.code.foreign import is_users
from sdbr.trace.watch._looks import MISSING
from sdbr.trace.watch.fingerprints import (
    C_BOUND,
    CONTAINERS,
    GETTERS,
    SEQUENCES,
    SETS,
    VARIABLES,
    module_of,
)
from sdbr.trace.watch.reads import is_ours
from sdbr.trace.watch._following import TRUSTED_FUNCTIONS, is_library_class, is_trusted

import chainer
import numpy as np

from sdbr.trace.watch._attributes cimport (
    as_usual,
    attribute,
    waits,
    wrote_attribute,
)
from sdbr.trace.watch._containers cimport (
    advance,
    computed_from,
    count,
    elements,
    get_item,
    holds,
    identify,
    put,
    set_item,
    subscript,
    values,
)
from sdbr.trace.watch._escaping cimport (
    ASKS,
    IS_SEEN,
    TAKES,
    Way,
    again,
    escape,
    numbers,
    show,
)
from sdbr.trace.watch._following cimport asks, computes_unseen, is_followed
from sdbr.trace.watch._looks cimport class_attribute, field, is_a, is_atom, lookup
from sdbr.trace.watch._notes cimport Notes

_FUNCTION, _METHOD = types.FunctionType, types.MethodType
_C_UNBOUND = (types.MethodDescriptorType, types.WrapperDescriptorType)
_OWNERLESS = (types.ModuleType, type(None))
_LEADS_TO, _WEAK = weakref.ref.__call__, (weakref.ref,)
_COMPUTED = (str, bytes, int, float, complex, *ARRAYS, np.generic, *VARIABLES)
_GENERATORS = (np.random.RandomState, np.random.Generator)
#: Whose state nobody sees: asked again before replays.
_AGAIN = frozenset({
    np.geterr, np.get_printoptions, np.geterrcall, sys.getrecursionlimit, os.getcwd, os.getpid,
    sys.getdefaultencoding, threading.current_thread, threading.get_ident,
})  # fmt: skip
#: What tells the state of a generator, which no draw of the call moves.
_TELLS = frozenset({"__getstate__", "__reduce__", "get_state", "spawn"})
_HASHED = (*SETS, dict)
_MOVING = ("_random", "time")
_ARRAYS = ("numpy", "cupy")
_OF_THREADS = ("subprocess", "threading", "_thread", "_queue", "concurrent")
_OUTPUT = frozenset({"fileno", "flush", "isatty", "write", "writelines"})
#: What these give of an array lies where it does, if it is contiguous.
_VIEWS = frozenset({"ravel", "reshape", "squeeze", "swapaxes", "transpose", "view"})
_WRITES = frozenset({
    "__delitem__", "__setitem__", "add", "append", "appendleft", "clear", "discard", "extend",
    "insert", "move_to_end", "pop", "popitem", "popleft", "remove", "reverse", "rotate",
    "setdefault", "sort", "update",
})  # fmt: skip
_CACHED = functools._lru_cache_wrapper
_WRITES_AND_TELLS = frozenset({"pop", "popitem", "popleft", "remove", "reverse", "setdefault"})
_OF_ONE = frozenset({"add", "discard"})
_FIND = frozenset({"count", "index"})
_CLOCKS = frozenset({"now", "today", "utcnow"})


cpdef object call(Notes notes, function, list args, dict kwargs):
    """The code calls ``function(*args, **kwargs)``.

    Returns
    -------
    function or None
        The Python function whose frame comes next.
    """
    kind = type(function)
    if kind is _FUNCTION:
        return _python(notes, function, args, kwargs)
    read_parts(notes, function)
    if kind is _METHOD:
        return call(notes, function.__func__, [function.__self__, *args], kwargs)
    if kind in C_BOUND:
        if not is_a(function.__self__, _OWNERLESS):
            return _method(notes, function.__name__, function.__self__, args, kwargs)
        return _compiled(notes, function, args, kwargs)
    if kind in _C_UNBOUND:
        return _method(notes, function.__name__, args[0], args[1:], kwargs) if args else None
    if is_a(function, (functools.partial,)):
        kwargs = {**function.keywords, **kwargs}
        return call(notes, function.func, [*function.args, *args], kwargs)
    if is_a(function, (type,)):
        return _class(notes, function, args, kwargs)
    if is_a(function, (np.ufunc,)):
        for x in args:
            escape(notes, x, False, IS_SEEN)  # of arrays, those of objects
        computed_from(notes, [*args, *kwargs.values()])
        return None
    return _object(notes, function, args, kwargs)


cdef int read_parts(Notes notes, function) except -1:
    """What a method is bound to is read, and what a `functools.partial` calls and gives that."""
    kind = type(function)
    if kind is _METHOD or kind in C_BOUND and not is_a(function.__self__, _OWNERLESS):
        notes.read(function, "self", None, function.__self__)
        if kind in C_BOUND:
            _moves(notes, function.__self__)
    elif is_a(function, (functools.partial,)):
        for name in ("func", "args", "keywords"):
            notes.read(function, "attribute", name, getattr(function, name))
        elements(notes, function.args)
        values(notes, function.keywords)
    return 0


cdef object _python(Notes notes, function, list args, dict kwargs):
    if is_followed(function):
        if not is_library_class(type(function)) or not notes.is_own(function):
            notes.fact(function, "definition")
        return function
    if function in _AGAIN and all([is_atom(x) for x in args]):
        again(notes, function, tuple(args), tuple(kwargs.items()))
        return None
    if function.__name__ in ("__setattr__", "__delattr__"):
        return _writes_attribute(notes, function.__name__, args)
    module = function.__globals__.get("__name__") or ""
    if module.startswith(_OF_THREADS):
        notes.mark_dynamic(f"{module}.{function.__name__} has to do with other threads")
    if module.startswith("chainer.serializer"):
        notes.mark_dynamic(f"{module}.{function.__name__} moves what replays would not")
    _give(notes, module, args, kwargs)
    return None


cdef object _give(Notes notes, str module, list args, dict kwargs, Way way = TAKES):
    """Code of a library gets things: what Chainer reads of links, it reads by code of theirs."""
    root = module.partition(".")[0]
    cdef bint ours = root == "sdbr" or root == "chainer"
    if root == "sdbr" and not module.startswith(("sdbr.trace.", "sdbr.compat.")):
        return  # does the same in every replay
    if root != "chainer":  # ours stand for NumPy's
        computed_from(notes, [*args, *kwargs.values()])
    for x in (*args, *kwargs.values()):
        if ours and is_a(x, (chainer.Link, chainer.LinkHook)):
            notes.is_own(x) or notes.root(x)
        else:
            escape(notes, x, False, IS_SEEN if ours or root in _ARRAYS else way)


cdef object undecorated(function):
    """The function that a static one was made of: the outermost static call wins."""
    if type(function) is _METHOD:
        found = undecorated(function.__func__)
        return None if found is None else _METHOD(found, function.__self__)
    if type(function) is not COMPILED:
        return None
    found = function.__dict__.get("_sdbr_function")
    return found if found is not None and function.__dict__.get("__wrapped__") is found else None


cdef object _object(Notes notes, thing, list args, dict kwargs):
    """An object is called that is no function."""
    plain = undecorated(thing)
    if plain is not None:  # by code that is not followed
        return call(notes, plain, args, kwargs)
    if type(thing) is _CACHED:
        return _cached(notes, thing, args, kwargs)
    if type(thing) in GETTERS and args:
        return _gets(notes, thing, args[0])
    found = notes.special(thing, "__call__")
    plain = undecorated(found) or found
    if type(plain) is _FUNCTION:
        return call(notes, plain, [thing, *args], kwargs)
    if found is _LEADS_TO:
        notes.asked = thing, ((), ())
        return None
    if is_ours(thing) or is_ours(found):
        return _give(notes, "chainer" if runs_users(thing) else "sdbr.trace.", args, kwargs)
    module = module_of(type(thing))
    if module.startswith("_cython_"):
        module = thing.__module__ or ""
        if not is_trusted(module):
            notes.mark_dynamic(f"calls {module}.{thing.__name__}, which is compiled")
        if args and is_a(args[0], _GENERATORS):
            _draws(notes, args[0], thing.__name__)
            args = args[1:]
    return _give(notes, module, [thing, *args], kwargs)


cdef int _moves(Notes notes, owner) except -1:
    """Compiled code calls a method of an iterator, most of which move it; files are told apart."""
    if class_attribute(type(owner), "__next__") is not MISSING and module_of(type(owner)) != "_io":
        advance(notes, owner)
    return 0


cdef int _draws(Notes notes, generator, str name) except -1:
    notes.reads.draws.append(name)
    if notes.is_own(generator):
        notes.wrote(generator, "*", None)
    if name in _TELLS:
        notes.mark_dynamic(f"asks for the state of a random generator: {name}")
    return 0


cdef bint runs_users(link) except -1:
    """Whether calling a link runs code of the user's, which is seen to use what it is given."""
    if not is_a(link, (chainer.Link,)) or field(link, "forward") is not MISSING:
        return False
    found = class_attribute(type(link), "__call__")
    if type(found) is not _FUNCTION:  # ours, which calls the other
        found = class_attribute(type(link), "forward")
    return type(found) is _FUNCTION and is_users(found.__globals__.get("__name__", ""))


cdef object _gets(Notes notes, getter, thing):
    """A getter of the standard library gets something of a thing."""
    keys = getter.__reduce__()[1]
    if type(getter) is operator.methodcaller:
        _moves(notes, thing)
        escape(notes, thing)
    elif type(getter) is operator.itemgetter:
        for key in keys:
            subscript(notes, thing, key)
    else:
        for path in keys:
            found = thing
            for name in path.split("."):
                attribute(notes, found, name)
                found = lookup(found, name)[1]


cdef object _cached(Notes notes, thing, list args, dict kwargs):
    """What a cache gives is asked for again before replays, as the code does."""
    if is_library_name(thing.__module__ or ""):
        for x in (*args, *kwargs.values()):
            escape(notes, x)
    elif is_atom((*args, *kwargs.values())):
        notes.asked = thing, (tuple(args), tuple(kwargs.items()))
    else:
        _give(notes, "", [thing, *args], kwargs)
    return None


cdef object _class(Notes notes, kind, list args, dict kwargs):
    """A class is called: by its ``__new__`` and ``__init__``."""
    maker = notes.special(kind, "__call__")
    if type(maker) is _FUNCTION:
        return call(notes, maker, [kind, *args], kwargs)
    meaning = MEANINGS.get(id(kind))
    if meaning is not None:
        return meaning(notes, args, kwargs)
    if module_of(kind) == "itertools":
        parts = [x for x in (*args, *kwargs.values()) if not callable(x)]
        for x in (*args, *kwargs.values()):  # functions among them
            escape(notes, x) if callable(x) else MEANINGS[id(zip)](notes, [x], {})
            if callable(x) and computes_unseen(x):
                computed_from(notes, parts, True)
        return None
    followed = None
    for name in ("__new__", "__init__"):
        found = class_attribute(kind, name)
        found = getattr(found, "__func__", found) if type(found) is staticmethod else found
        if not is_library_class(kind):
            notes.read(kind, "attribute", name, lookup(kind, name)[1])
        if is_followed(found):
            followed = found
    if followed is None:
        base = next(k for k in kind.__mro__ if makes_by_itself(k))
        meaning = MEANINGS.get(id(base))
        meaning(notes, args, kwargs) if meaning is not None else _unknown(
            notes, kind, args, kwargs)
    return followed


def makes_by_itself(kind):
    """Whether compiled code of a class makes its objects."""
    space = kind.__dict__
    return (
        not kind.__flags__ & 1 << 9  # all of CPython's before 3.10
        or type(space.get("__new__")) is types.BuiltinMethodType
        or type(space.get("__init__")) is types.WrapperDescriptorType
    )


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
        notes.mark_dynamic(f"calls {name}, of which nobody knows what it reads or changes")
    _give(notes, module, args, kwargs, ASKS if asks(function) else TAKES)


cdef object _method(Notes notes, str name, owner, list args, dict kwargs):
    """A compiled method of an object."""
    if name == "__call__" and is_a(owner, _WEAK):  # by the code of a class above it
        notes.asked = owner, ((), ())
        return None
    if name == "__call__":
        return call(notes, owner, args, kwargs)
    if name in ("__init__", "__new__", "__init_subclass__", "__enter__", "__exit__"):
        return None
    if name in ("__setattr__", "__delattr__") and args:
        return _writes_attribute(notes, name, [owner, *args])
    if name == "__getattribute__" and args and type(args[0]) is str:
        return as_usual(notes, owner, args[0])
    if is_a(owner, (type,)):
        return _of_class(notes, name, owner, args, kwargs)
    if is_a(owner, CONTAINERS) or type(owner) is types.MappingProxyType:
        return _of_container(notes, name, owner, args, kwargs)
    if not is_a(owner, _COMPUTED) or (is_a(owner, ARRAYS) and owner.dtype == object):
        module = module_of(type(owner))
        if is_a(owner, _GENERATORS):
            _draws(notes, owner, name)
        elif type(owner) is contextvars.ContextVar and name == "get":
            notes.asked = owner, (tuple(args), ())
        elif type(owner).__name__ == "lock" or module.startswith(_OF_THREADS):
            waits(notes)
        elif module == "_io" and name not in _OUTPUT and not hasattr(owner, "getvalue"):
            notes.mark_dynamic(f"reads a file: {name}")
        elif module in ("random", *_MOVING):
            notes.mark_dynamic(f"{type(owner).__qualname__}.{name} gives something else each time")
        else:
            _moves(notes, owner)
            escape(notes, owner)
    elif is_a(owner, ARRAYS):
        if name == "__getitem__" and args:
            subscript(notes, owner, args[0])
        elif name not in _VIEWS or not owner.flags.c_contiguous:
            numbers(notes, owner)
        if name == "__array_function__" and holds_known((args, kwargs)):  # of a class above it
            notes.mark_dynamic("lets NumPy read arrays of the call past what follows them")
    elif name in ("format", "join", "format_map", "__format__", "__mod__"):
        for x in (*args, *kwargs.values()):
            show(notes, x)
    _give(notes, module_of(type(owner)), args, kwargs)
    return None


cdef object _of_class(Notes notes, str name, owner, list args, dict kwargs):
    if name in ("__subclasses__", "mro"):
        notes.fact(owner, "subclasses" if name == "__subclasses__" else "bases")
        return None
    if name in _CLOCKS and module_of(owner) == "datetime":
        notes.mark_dynamic(f"{owner.__qualname__}.{name} gives something else each time")
    if module_of(type(owner)) == "_ctypes":
        notes.mark_dynamic(f"calls {owner.__qualname__}.{name}, which may read any memory")
    if owner is itertools.chain:
        return MEANINGS[itertools.chain](notes, args, kwargs)
    for x in (*args, *kwargs.values()):
        escape(notes, x)
    return None


cdef object _of_container(Notes notes, str name, owner, list args, dict kwargs):
    is_dict = is_a(owner, (dict, types.MappingProxyType))
    if is_dict and args and name in ("get", "__getitem__"):
        if name == "get" and class_attribute(type(owner), "__missing__") is not MISSING:
            holds(notes, owner, args[0])
        get_item(notes, owner, args[0])
    elif is_dict and name in ("items", "values", "copy"):
        values(notes, owner)
    elif args and (name == "__contains__" or is_a(owner, SEQUENCES) and name in _FIND):
        holds(notes, owner, args[0])
    elif is_a(owner, SEQUENCES) and name == "__getitem__" and args:
        get_item(notes, owner, args[0])
    elif name == "__len__":
        count(notes, owner)
    elif name in _WRITES:
        if name == "sort":
            MEANINGS[id(sorted)](notes, [owner], kwargs)
        elif name == "remove" and args:
            holds(notes, owner, args[0])
        elif is_dict and name in ("pop", "setdefault") and args:
            get_item(notes, owner, args[0])
        elif name in _WRITES_AND_TELLS:
            values(notes, owner) if is_dict else elements(notes, owner)
        if name in ("__setitem__", "__delitem__") and args:
            set_item(notes, owner, args[0], name == "__delitem__")
        else:
            if name in ("extend", "update"):
                MEANINGS[id(list if name == "extend" else set)](notes, args, {})
            for x in args[:1] if is_a(owner, _HASHED) else ():
                identify(notes, x)
            if name == "update" and is_dict and (not args or type(args[0]) is dict):
                put(notes, owner, name, [{**(args[0] if args else {}), **kwargs}])
            elif name in _OF_ONE and is_a(owner, SETS):
                put(notes, owner, name, args)
            else:
                notes.wrote(owner, "*", None)
    elif name in ("keys", "__iter__", "__reversed__", "copy"):
        elements(notes, owner) or escape(notes, owner)
    else:
        for x in (owner, *args, *kwargs.values()):
            escape(notes, x)


cdef object _writes_attribute(Notes notes, str name, list args):
    if len(args) > 1:
        wrote_attribute(notes, args[0], args[1], name == "__delattr__")


#: Address of a compiled function or class -> what calling it reads, where that is known.
MEANINGS: dict = {}
