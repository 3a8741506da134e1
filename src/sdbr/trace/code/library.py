"""Whose code it is: the user's own, or that of a library."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import types

from sdbr.trace.code.reading import get

_LIBRARIES = frozenset({"builtins", "chainer", "cupy", "numpy", "scipy", "sdbr"})
#: Modules that classes name which were made by a call: ``type('Net', (chainer.Chain,), {})``.
_MAKERS = frozenset({"abc", "types", "typing"})


def is_library(thing) -> bool:
    """Whether a function, class or module is not the user's own."""
    file = None
    if isinstance(thing, types.ModuleType):
        name, file = thing.__name__, get(thing, "__file__")
    else:
        name = getattr(thing, "__module__", None)
        if name.__class__ is str:
            if name in _MAKERS and isinstance(thing, type):
                return getattr(sys.modules[name], thing.__name__, None) is thing
            if _is_of_library(name) and not isinstance(thing, types.FunctionType):
                return True
        if isinstance(thing, types.FunctionType):
            file = thing.__globals__.get("__file__")
            # What wraps another says to be of its module.
            own = thing.__globals__.get("__name__")
            if own != name and isinstance(own, str) and not is_library_name(own, file):
                return False
    return is_library_name(name if isinstance(name, str) and name else "builtins", file)


def stands_in(thing) -> bool:
    """Whether we have put `thing` in the place of another while some thread traces a call."""
    if isinstance(thing, types.FunctionType):
        name = thing.__globals__.get("__name__")
    else:
        name = thing.__module__ if isinstance(thing, type) else None
    return isinstance(name, str) and name.partition(".")[0] == "sdbr"


@functools.lru_cache(maxsize=1024)
def _is_of_library(name: str) -> bool:
    """Whether a module belongs to a package of `_LIBRARIES`, wherever it lies."""
    return name.partition(".")[0] in _LIBRARIES


def is_library_name(name: str, file: str | None = None) -> bool:
    """Whether a module of this name, and in this file if that is known, is not the user's own."""
    root = name.partition(".")[0]
    if root in _LIBRARIES:
        return True
    if root not in sys.stdlib_module_names or root == "__main__":
        return False
    # A file of the user's may be called like one of the library.
    file = file or get(sys.modules.get(name) or sys.modules.get(root), "__file__")
    return not isinstance(file, str) or _is_in_library(file)


@functools.lru_cache(maxsize=1024)
def _is_in_library(file: str) -> bool:
    path = os.path.realpath(file)
    return "site-packages" not in path and path.startswith(_STDLIB)


_STDLIB = tuple(
    os.path.realpath(sysconfig.get_path(kind)) + os.sep for kind in ("stdlib", "platstdlib")
)
