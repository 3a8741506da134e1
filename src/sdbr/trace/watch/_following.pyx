"""Which code is followed, and which compiled code is known to read nothing unseen."""

import builtins
import functools
import os
import pickle
import sys
import types
import warnings

from sdbr.base._by_class import ByClass
from sdbr.compat.speed import summary
from sdbr.trace.arrays.stripping import LEAVING, TRACED
from sdbr.trace.code._library import is_library, stands_in

import chainer
import numpy as np
import scipy

from sdbr.trace.watch._looks cimport class_attribute, is_a

_STDLIB = os.path.dirname(os.__file__) + os.sep
_CHAINER = os.path.dirname(chainer.__file__) + os.sep
#: Where nothing is followed.
_PACKAGES = tuple(os.path.dirname(x.__file__) + os.sep for x in (sys.modules["sdbr"], np, scipy))
_CUPY = f"{os.sep}cupy{os.sep}"
_PACKAGES += (_CHAINER[:-1] + "x" + os.sep,)
#: Of Chainer what computes with the values of a call, or is replaced while one is traced.
_CHAINERS_OWN = (
    "_", "backend", "cuda.py", "distribution", "function.py", "function_node.py",
    "functions" + os.sep, "graph_optimizations", "memory_layouts.py", "serializer",
    "testing" + os.sep, "types.py", "utils" + os.sep, "variable.py",
)  # fmt: skip
#: Modules of the standard library that look at code, or keep caches of what it is.
_NOT_FOLLOWED = frozenset({
    "abc", "ast", "dis", "importlib", "inspect", "linecache", "opcode", "pickle",
    "threading", "token", "tokenize", "traceback", "typing", "unittest", "warnings",
})  # fmt: skip


@functools.lru_cache(maxsize=4096)
def follows_file(name: str):
    """Whether code of a file is followed, by how its code objects call the file."""
    if name == summary.__file__:  # which stands in the place of Chainer's
        return True
    if name.startswith(("<frozen abc", "<frozen importlib", "<__array_function__", *_PACKAGES)):
        return False
    if _CUPY in name:  # which may be imported later
        return False
    if name.startswith(_CHAINER):
        return not name[len(_CHAINER) :].startswith(_CHAINERS_OWN)
    if name.startswith(_STDLIB) and "site-packages" not in name:
        root = name[len(_STDLIB) :].split(os.sep)[0].removesuffix(".py")
        return root not in _NOT_FOLLOWED
    return True


@functools.lru_cache(maxsize=4096)
def is_stdlib(name: str):
    """Whether a file is of the standard library."""
    return name.startswith("<frozen ") or (
        name.startswith(_STDLIB) and "site-packages" not in name)


cpdef bint is_followed(function) except -1:
    """Whether a function, or what a method is bound of, is followed when it is called."""
    while type(function) is types.MethodType:
        function = function.__func__
    return type(function) is types.FunctionType and follows_file(function.__code__.co_filename)


cpdef bint runs_followed(function) except -1:
    """Whether what runs where compiled code calls a function, method, class or object is followed.
    """
    while is_a(function, (functools.partial,)):
        function = function.func
    if is_followed(function):
        return True
    if is_a(function, (type,)):
        return is_followed(class_attribute(function, "__init__"))
    return is_followed(class_attribute(type(function), "__call__"))


cpdef bint computes_unseen(function) except -1:
    """Whether what is in arrays that a function is called with is read where nobody tells."""
    if runs_followed(function):
        return False
    named = type(function) is types.FunctionType or is_a(function, (type,))
    module = function.__module__ if named else None
    return not (type(module) is str and module.partition(".")[0] == "chainer")


cpdef object unbound(function):
    """What a method is bound of: the object is nobody's to keep."""
    while type(function) is types.MethodType:
        function = function.__func__
    if type(function) in _C_BOUND and not is_a(function.__self__, _OWNERS):
        return class_attribute(type(function.__self__), function.__name__)
    return function


cpdef object direct(function):
    """What is called where calling `function` only passes that on; None for the function itself.

    A method that is bound to an array (``types.MethodType(norm, x)``) is called with it.
    """
    found = function
    if type(found) is types.MethodWrapperType and found.__name__ == "__call__" and (
        type(unbound(found)) is types.WrapperDescriptorType
    ):
        found = found.__self__
    kind = type(found)
    owner = type(found.__self__) if kind is types.MethodType else None
    if owner in TRACED or owner in LEAVING:
        return functools.partial(found.__func__, found.__self__)
    usual = class_attribute(kind, "__call__") is functools.partial.__call__
    if usual and kind is not functools.partial:  # of a class above it
        found = functools.partial(found.func, *found.args, **found.keywords)
    return None if found is function else found


def pass_on(function, /, *args, **kwargs):
    """Call it: what is called in the place of a slot of its class."""
    return function(*args, **kwargs)


cpdef bint hides_code(found) except -1:
    """Whether what a class has in the place of a method is compiled, or code that is not followed;
    what functions of Chainer's compute is seen by what they apply."""
    bare = found.__func__ if type(found) is staticmethod else found
    if bare is found and not is_a(found, (*_COMPILED, functools.partial)):
        return False
    bare = bare.func if type(bare) is functools.partial else bare
    is_python = type(bare) is types.FunctionType
    return not (is_followed(bare) or stands_in(bare) or is_python and is_a_part(bare, "chainer"))


cdef bint is_a_part(function, str package) except -1:
    name = function.__globals__.get("__name__")
    return type(name) is str and name.partition(".")[0] == package


_COMPILED = (types.BuiltinFunctionType, type(np.sum), np.ufunc)
_C_BOUND = (types.BuiltinMethodType, types.MethodWrapperType)
_OWNERS = (types.ModuleType, type, type(None))


@ByClass
def is_library_class(kind):
    """Whether a class stays as it is: compiled, or of a library."""
    if not kind.__flags__ & 1 << 9:
        return True
    module = kind.__dict__.get("__module__")
    # Classes of `six`, which Chainer asks, take their attributes out themselves at first use.
    return isinstance(module, str) and (is_library(kind) or module == "six")


#: Modules of compiled functions that read what they are given, and nothing else.
TRUSTED = {
    "_abc": "registries of abstract classes, which `isinstance` guards",
    "_bisect": "lists that are sorted",
    "_codecs": "texts",
    "_collections": "containers",
    "_contextvars": "variables, read by methods that are known",
    "_datetime": "dates; those that ask the clock are moving",
    "_decimal": "numbers, and a context that is guarded",
    "_functools": "callables, which are followed",
    "_hashlib": "texts",
    "_heapq": "lists",
    "_imp": "locks of imports",
    "_json": "texts and containers",
    "_operator": "operators",
    "_sre": "texts",
    "_string": "texts",
    "_struct": "bytes",
    "_thread": "identities of threads; locks are dynamic",
    "_weakref": "weak references",
    "binascii": "bytes",
    "builtins": "what has no meaning of its own in `calls`",
    "cmath": "numbers",
    "functools": "callables, which are followed",
    "itertools": "iterables",
    "marshal": "values",
    "math": "numbers",
    "operator": "operators",
    "zlib": "bytes",
}


#: Those of them that compute with numbers by the methods of their classes, and these.
_ASKING_MODULES = frozenset({"_bisect", "_heapq", "_operator", "itertools"})
_ASKING = frozenset({
    builtins.abs, builtins.divmod, builtins.format, builtins.hash, builtins.pow, builtins.repr,
    builtins.round, complex, float, int, max, min, sorted, str, sum,
})  # fmt: skip


cpdef bint asks(function) except -1:
    """Whether compiled code asks what it is given, instead of taking values past its methods."""
    kind = type(function)
    if kind is types.FunctionType:
        return (function.__module__ or "").partition(".")[0] == "sdbr"
    if kind is not types.BuiltinFunctionType and kind is not type:
        return False
    return function.__module__ in _ASKING_MODULES or function in _ASKING


#: As are these of other modules.
TRUSTED_FUNCTIONS = frozenset({
    os.fspath, pickle.dumps, pickle.loads, sys.intern, sys.is_finalizing,
    warnings.warn,
})  # fmt: skip


def is_trusted(module: str):
    """Whether compiled functions of a module read nothing but what they are given."""
    root = module.split(".")[0]
    return module in TRUSTED or root in ("chainer", "cupy", "numpy", "scipy", "sdbr")
