# cython: language_level=3
"""Whose code it is, the user's own or that of a library: compiled, for what a trace asks most."""

import functools
import os
import sys
import sysconfig
import types

from sdbr.trace.code.reading import get

cdef frozenset _LIBRARIES = frozenset({"builtins", "chainer", "cupy", "numpy", "scipy", "sdbr"})
#: Modules that classes name which were made by a call: ``type('Net', (chainer.Chain,), {})``.
cdef frozenset _MAKERS = frozenset({"abc", "types", "typing"})
cdef object _Module = types.ModuleType
cdef object _Function = types.FunctionType
cdef dict _roots = {}  # names of modules -> of their packages
cdef int _MOST = 4096


def is_library(thing) -> bool:
    """Whether a function, class or module is not the user's own."""
    file = None
    cdef bint is_function = isinstance(thing, _Function)
    if isinstance(thing, _Module):
        name, file = thing.__name__, get(thing, "__file__")
    else:
        name = getattr(thing, "__module__", None)
        if type(name) is str:
            if name in _MAKERS and isinstance(thing, type):
                return getattr(sys.modules[name], thing.__name__, None) is thing
            if not is_function and _root(name) in _LIBRARIES:
                return True
        if is_function:
            space = thing.__globals__
            file = space.get("__file__")
            # What wraps another says to be of its module.
            own = space.get("__name__")
            if own != name and isinstance(own, str) and not _is_library_name(own, file):
                return False
    return _is_library_name(name if isinstance(name, str) and name else "builtins", file)


def stands_in(thing) -> bool:
    """Whether we have put `thing` in the place of another while some thread traces a call."""
    kind = type(thing)
    if kind is _Function or kind is _Compiled:
        name = thing.__globals__.get("__name__")
    else:
        kind = thing if issubclass(kind, type) else kind
        name = kind.__module__ if kind is thing or "_sdbr_stands_in" in kind.__dict__ else None
    # A static function is one of the user's, who may put another in its place.
    return isinstance(name, str) and _root(name) == "sdbr" and name != "sdbr.call._entry"


#: What a function is that is compiled, ours or another's.
COMPILED = type(stands_in)
cdef object _Compiled = COMPILED


def is_library_name(name: str, file: str | None = None) -> bool:
    """Whether a module of this name, and in this file if that is known, is not the user's own."""
    return _is_library_name(name, file)


cdef object _root(name):
    """The package of a module, by its name."""
    root = _roots.get(name)
    if root is None:
        if len(_roots) > _MOST:
            _roots.clear()
        root = _roots[name] = name.partition(".")[0]
    return root


cdef bint _is_library_name(name, file) except -1:
    root = _root(name)
    if root in _LIBRARIES:
        return True
    if root not in sys.stdlib_module_names or root == "__main__":
        return False
    # A file of the user's may be called like one of the library.
    file = file or get(sys.modules.get(name) or sys.modules.get(root), "__file__")
    return not isinstance(file, str) or _is_in_library(file)


@functools.lru_cache(maxsize=1024)
def _is_in_library(file):
    path = os.path.realpath(file)
    return "site-packages" not in path and path.startswith(_STDLIB)


cdef tuple _STDLIB = tuple([
    os.path.realpath(sysconfig.get_path(kind)) + os.sep for kind in ("stdlib", "platstdlib")
])
