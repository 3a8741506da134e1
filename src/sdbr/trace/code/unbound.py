"""What takes arrays and numbers past the class that follows them while a call is traced.

Methods from the classes of arrays and numbers (``np.ndarray.fill(h, 0)``, ``float.hex(f)``), and
masked arrays, which make arrays of a class of their own.
"""

from __future__ import annotations

import builtins
import dis
import functools
import types

from sdbr.base.reasons import Reason, Remedy

import numpy as np

_DESCRIPTORS = (
    types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType,
)  # fmt: skip
_ARRAYS = (np.ndarray, np.generic)
_NUMBERS = (float, int)
_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
#: What to say of such a method.
PAST = "takes an array past what follows it"


def unbound_methods(function: types.FunctionType) -> tuple[str, Reason | None]:
    """What the code of a function takes from classes.

    Returns
    -------
    str
        The method of ``float`` or ``int`` that it takes, so that no number can be followed; empty
        without one.
    Reason or None
        Why the call cannot be static: it takes one of arrays.
    """
    numbers = ""
    for path, line in _paths(function.__code__):
        cls = _thing_at(function.__globals__, path[:-1])
        is_class = isinstance(cls, type) and _is_method(cls, path[-1])
        at = f"{function.__code__.co_filename}:{line} in {function.__name__}"
        if is_class and cls in _NUMBERS:
            numbers = numbers or f"{'.'.join(path)} at {at}"
        if cls is np.ma or (is_class and issubclass(cls, _ARRAYS)):
            return numbers, Reason(f"{'.'.join(path)} {PAST}", Remedy.CALL_METHOD, at)
    return numbers, None


def takes_array(thing) -> bool:
    """Whether what a variable holds is such a method of arrays, or makes masked ones."""
    if isinstance(thing, _DESCRIPTORS):
        return issubclass(thing.__objclass__, _ARRAYS)
    if isinstance(thing, (types.FunctionType, type)):
        return (thing.__module__ or "").startswith("numpy.ma.")
    return thing is np.ma


def _thing_at(names: dict, path: tuple):
    """The class or module that a path of names leads to."""
    first, *rest = path
    thing = np if rest and first == "xp" else names.get(first, getattr(builtins, first, None))
    for name in rest:
        thing = vars(thing).get(name) if isinstance(thing, types.ModuleType) else None
    return thing


def _is_method(cls: type, name: str) -> bool:
    found = [base.__dict__[name] for base in cls.__mro__ if name in base.__dict__]
    return bool(found) and (name == "__new__" or isinstance(found[0], _DESCRIPTORS))


@functools.lru_cache(maxsize=1024)
def _paths(code: types.CodeType) -> tuple:
    """Names that the code goes along: ``(("np", "ndarray", "fill"), line)``."""
    found: list = []
    path: tuple = ()
    line = code.co_firstlineno
    for i in dis.get_instructions(code):
        start = getattr(i, "line_number", None) or i.starts_line
        line = start if type(start) is int else line
        if i.opname in _LOADS or (i.opname in _ATTRIBUTES and i.argval == "xp"):
            path = (i.argval,)
        elif i.opname in _ATTRIBUTES and path:
            path = (*path, i.argval)
            found.append((path, line))
        else:
            path = ()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += _paths(constant)
    return tuple(found)
