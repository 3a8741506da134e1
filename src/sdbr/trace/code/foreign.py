"""Code of libraries that hands arrays to compiled code of its own.

Of Chainer and NumPy it is known what they do with an array; the user's own code, and packages
written for Chainer, are followed. Other packages with compiled modules are not: an array that
their Python code gets may be read where nobody tells.
"""

from __future__ import annotations

import functools
import importlib.machinery
import sys
import types

_KNOWN = frozenset({"builtins", "chainer", "cupy", "numpy", "sdbr", "__main__", ""})
_COMPILED = tuple(importlib.machinery.EXTENSION_SUFFIXES)


@functools.lru_cache(maxsize=4096)
def is_foreign(name: str) -> bool:
    """Whether a module of this name belongs to a library that cannot be followed."""
    return _is_foreign_package(name.partition(".")[0])


@functools.lru_cache(maxsize=4096)
def is_users(name: str) -> bool:
    """Whether a module of this name holds code of the user's, or a package that is followed."""
    root = name.partition(".")[0]
    if root in ("chainer", "numpy", "sdbr") or is_foreign(name):
        return False
    return root not in sys.stdlib_module_names or root == "__main__"


def foreign_caller(frame) -> str | None:
    """The package of the innermost code outside NumPy and sdbr, if that is a foreign one."""
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if is_users(name) or name[:7] == "chainer":
            return None
        if is_foreign(name):
            return name.partition(".")[0]
        if name[:5] not in ("numpy", "sdbr.", "sdbr"):
            return None
        frame = frame.f_back
    return None


@functools.lru_cache(maxsize=1024)
def _is_foreign_package(root: str) -> bool:
    if root in _KNOWN or root in sys.stdlib_module_names:
        return False
    modules = [
        module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] == root and isinstance(module, types.ModuleType)
    ]
    compiled = any((vars(m).get("__file__") or "").endswith(_COMPILED) for m in modules)
    return compiled and not any(map(_uses_chainer, modules))


def _uses_chainer(module: types.ModuleType) -> bool:
    for thing in list(vars(module).values()):
        if isinstance(thing, types.ModuleType):
            name = thing.__name__
        else:
            name = thing.__dict__.get("__module__") if isinstance(thing, type) else None
        if isinstance(name, str) and name.partition(".")[0] == "chainer":
            return True
    return False
