"""Code that takes the value of a float past the methods of its class."""

from __future__ import annotations

import types

from sdbr.trace.code.foreign import is_foreign

# Classes that take the value of a float past its own methods: `float.hex(x)`, `float.__add__`.
_UNBOUND = (types.WrapperDescriptorType, types.MethodDescriptorType, types.MethodWrapperType)
ASKED_OF_FLOATS = {"getattr"} | frozenset(dir(float)) - frozenset(dir(object)) - {
    "real",
    "imag",
    "conjugate",
}
_COMPILED = frozenset({"array", "cmath", "ctypes", "decimal", "json", "statistics", "struct"})


def takes_plain_floats(thing) -> bool:
    """Whether `thing` is compiled code that takes the value of any float without asking it.

    The functions of :mod:`math` are watched when they are called through their module.
    """
    if isinstance(thing, types.ModuleType):
        return thing.__name__.partition(".")[0] in _COMPILED or is_foreign(thing.__name__)
    if isinstance(thing, types.FunctionType):
        name = thing.__module__ or ""
        return name.partition(".")[0] in _COMPILED or is_foreign(name)
    if isinstance(thing, _UNBOUND):
        return True
    if isinstance(thing, types.BuiltinFunctionType) or type(thing).__name__.startswith("cython"):
        return (thing.__module__ or "").partition(".")[0] not in ("builtins", "numpy", "time")
    return False
