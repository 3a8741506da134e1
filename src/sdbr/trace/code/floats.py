"""Code that takes the value of a float past the methods of its class."""

from __future__ import annotations

import datetime
import functools
import types
from collections.abc import Iterable
from typing import Any

from sdbr.trace.code.foreign import is_foreign

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
#: Numbers and texts, and what computes with floats by their methods.
_ASKING = (
    str, int, float, bytes, type(None), datetime.date, datetime.time, datetime.timedelta,
)  # fmt: skip
_LOOKED_AT = 1000  # things
_LIBRARIES = ("chainer", "numpy", "cupy", "sdbr")
#: What makes code that is not there to be read.
MAKES_CODE = frozenset({"__import__", "importlib", "import_module", "eval", "exec", "compile"})


def takes_plain_floats(thing) -> bool:
    """Whether `thing` takes the value of any float without asking it: compiled code does.

    The functions of :mod:`math` are watched when they are called through their module.
    """
    if isinstance(thing, complex):
        return True
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
    if not found and ("complex" in names or _has_complex(code)):
        return f"a complex number at {at}"
    return f"{found!r} at {at}" if found else ""


@functools.lru_cache(maxsize=1024)
def _has_complex(code: types.CodeType) -> bool:
    """Whether a complex number stands in `code`: beside one Python takes any float as it is."""
    return any(
        type(x) is complex or (isinstance(x, types.CodeType) and _has_complex(x))
        for x in code.co_consts
    )


def reaches_takers(things: Iterable[Any]) -> bool:
    """Whether something among `things` takes the value of any float without asking it.

    Looked at are containers, too, and attributes of users' objects. Of very much the rest is not
    looked at; audits remain.
    """
    found, seen = list(things), set()
    while found and len(seen) < _LOOKED_AT:
        thing = found.pop()
        if isinstance(thing, _ASKING) or id(thing) in seen:
            continue
        if takes_plain_floats(thing):
            return True
        seen.add(id(thing))
        if isinstance(thing, dict):
            found += thing.values()
        elif isinstance(thing, (list, tuple, set, frozenset)):
            found += thing
        elif type(thing).__module__.partition(".")[0] not in _LIBRARIES:
            found += getattr(thing, "__dict__", {}).values()
    return False


def _is_compiled(module) -> bool:
    """Whether a module holds such code, in the standard library or elsewhere."""
    if not isinstance(module, str):
        return False
    return module.partition(".")[0].lstrip("_") in _COMPILED or is_foreign(module)
