"""Code that takes the value of a float past the methods of its class."""

from __future__ import annotations

import types

from sdbr.trace.code.foreign import is_foreign
from sdbr.trace.code.named import MAKES_CODE

# Classes that take the value of a float past its own methods: `float.hex(x)`, `float.__add__`.
_UNBOUND = (types.WrapperDescriptorType, types.MethodDescriptorType, types.MethodWrapperType)
_OF_FLOATS = {"getattr"} | frozenset(dir(float)) - frozenset(dir(object)) - {
    "real",
    "imag",
    "conjugate",
}
#: Operators as methods of the number on the left, which take the value of the one on the right.
_OPERATORS = frozenset({
    f"__{prefix}{name}__"
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "divmod")
    for prefix in ("", "r")
} | {f"__{name}__" for name in ("lt", "le", "gt", "ge", "eq", "ne")})  # fmt: skip
#: Functions of the module `time` that take a moment; the others take none, or wait.
_MOMENTS = frozenset({"ctime", "gmtime", "localtime"})
_COMPILED = frozenset({
    "array", "cmath", "ctypes", "datetime", "decimal", "json", "marshal", "sqlite3", "statistics",
    "struct",
})  # fmt: skip


def takes_plain_floats(thing) -> bool:
    """Whether `thing` is compiled code that takes the value of any float without asking it.

    The functions of :mod:`math` are watched when they are called through their module.
    """
    if isinstance(thing, types.ModuleType):
        return _is_compiled(thing.__name__)
    if isinstance(thing, (types.FunctionType, type)):
        return _is_compiled(thing.__module__)
    if isinstance(thing, _UNBOUND):
        return True
    if isinstance(thing, types.BuiltinFunctionType) or type(thing).__name__.startswith("cython"):
        module = (thing.__module__ or "").partition(".")[0]
        return module not in ("builtins", "numpy", "time") or thing.__name__ in _MOMENTS
    return _is_compiled(type(thing).__module__)  # an object with methods that do


def asks_past_methods(attributes, names_float: bool) -> str:
    """The attribute by which code takes floats past their methods; empty without one.

    Parameters
    ----------
    attributes : set of str
    names_float : bool
        Whether it may reach ``float`` itself, as in ``float.hex(x)``.
    """
    past = _OPERATORS | _MOMENTS | (_OF_FLOATS if names_float else frozenset())
    return min((f"the attribute {name!r}" for name in past & set(attributes)), default="")


def obscure(function: types.FunctionType, names, making: frozenset) -> str:
    """What in a function of the user's may take floats unseen; empty if nothing.

    Parameters
    ----------
    function : types.FunctionType
    names : set of str
        That its code reads from outside.
    making : set of str
        Attributes of its code that make code.
    """
    making = making | (MAKES_CODE & names)
    own = function.__globals__.get("type") is type  # in whose place no other can be put
    found = min(making) if making else "type" if own and "type" in names else ""
    code = function.__code__
    at = f"{code.co_filename}:{code.co_firstlineno} in {function.__name__}"
    return f"{found!r} at {at}" if found else ""


def _is_compiled(module) -> bool:
    """Whether a module holds such code, in the standard library or elsewhere."""
    if not isinstance(module, str):
        return False
    return module.partition(".")[0].lstrip("_") in _COMPILED or is_foreign(module)
