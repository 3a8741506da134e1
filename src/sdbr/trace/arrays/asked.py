"""What stands for a builtin that code of the user's calls with an array or number of the call.

Nobody can patch ``type``, ``float`` or ``int``: the watch puts these functions in their place on
the value stack, just before the call is made.
"""

from __future__ import annotations

import builtins
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

from sdbr.base.reasons import Remedy
from sdbr.trace.arrays.asking import ask_layout
from sdbr.trace.arrays.provenance import TracedArray
from sdbr.trace.arrays.stripping import (
    LEAVING,
    TRACED,
    holds_known,
    holds_traced,
    is_traced,
    shown,
    strip,
    strip_nested,
)
from sdbr.trace.arrays.telling import leave_by, record, unseen
from sdbr.trace.arrays.traced_float import FOLLOWED, computed, strip_floats
from sdbr.trace.code.moving import GENERATORS
from sdbr.trace.current import current

import numpy as np


def type_of(thing: Any) -> type:
    """``type(thing)``, as define-by-run has it."""
    kind = type(thing)
    return thing.kind if kind in FOLLOWED else thing.__class__ if is_traced(thing) else kind


def view_of(thing: Any) -> memoryview:
    """``memoryview(thing)``."""
    if is_traced(thing):
        ask_layout()
        leave_by("a value left NumPy through memoryview()", Remedy.STAY_ARRAYS, thing)
    return memoryview(strip(thing))


def is_one(thing: Any, kind: type) -> bool:
    """Whether a number may be made of an array; with dimensions, NumPy may raise or warn."""
    if not is_traced(thing) or strip(thing).size != 1:
        return False
    if strip(thing).ndim:
        kind(strip(thing))
    return True


def whole_of(thing: Any) -> int:
    """``int(thing)``, which may be followed."""
    recorder = current()
    if recorder is not None and not recorder.depth:
        if recorder.floats.is_left_whole(thing) or (
            recorder.floats.follows(thing) and thing.kind is int
        ):
            return thing
        if is_one(thing, int):
            found = recorder.leaving.leave_as_whole(thing, "a value left NumPy through int()")
            if found is not None:
                return found
    return int(thing)


def float_of(thing: Any) -> float:
    """``float(thing)``, which may be followed."""
    recorder = current()
    if recorder is not None and not recorder.depth:
        if recorder.floats.is_left(thing) or recorder.floats.shows_float(thing):
            return recorder.leaving.as_python(thing)
        if type(thing) in FOLLOWED:
            return computed(float, (thing,))
        if is_one(thing, float):
            found = recorder.leaving.leave_as_float(thing, "a value left NumPy through float()")
            if found is not None:
                return found
    return float(thing)


def power(base: Any, exp: Any, mod: Any = None) -> Any:
    """``pow`` of three numbers, of which Python asks the first one alone."""
    return pow(base, exp) if mod is None else pow(*strip_floats((base, exp, mod)))


def _with_plain_exponent(name: str) -> Callable:
    operate = getattr(np.ndarray, name)

    def method(self: TracedArray, exponent: Any, *modulus: Any) -> Any:
        return operate(self, strip_floats(exponent), *modulus)

    return method


if np.lib.NumpyVersion(np.__version__) < "2.3.0":  # arrays take the value of an exponent
    for _name in ("__pow__", "__ipow__"):
        setattr(TracedArray, _name, _with_plain_exponent(_name))


def plainly(function: Callable, name: str = "") -> Callable:
    """What stands for a function that takes what it gets past the class that follows it.

    Parameters
    ----------
    function : callable
    name : str
        Of one that takes arrays; of numbers it is known that they left.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        recorder = current()
        if recorder is None or recorder.depth:
            return function(*args, **kwargs)
        if name:
            text = f"{name} takes an array past what follows it"
            recorder.mark_dynamic(text, Remedy.CALL_METHOD)
        return unseen(recorder, function, *strip_nested(args), **strip_nested(kwargs))

    return call


def gives_in_list(thing: Any) -> bool:
    """Whether NumPy, which asks an array itself, would read some in `thing` and tell nobody."""
    return not is_traced(thing) and holds_known(thing)


def asks_another(function: Callable, things: Sequence) -> bool:
    """Whether NumPy asks an array of another class first, which lets it read those of the call."""
    traced = list(map(is_traced, things))
    if type(function) is not _Dispatcher or not any(traced):
        return False
    first = traced.index(True)  # before arrays in files as well
    kinds = {type(x) for i, x in enumerate(things) if not (type(x) is np.memmap and i > first)}
    asked = [getattr(kind, "__array_function__", None) for kind in kinds - {np.ndarray, *TRACED}]
    return np.ndarray.__array_function__ in asked


def enter(function: Callable, things: Sequence) -> list:
    """What a function of a library that asks no array gets in the place of `things`."""
    home, name = getattr(function, "__module__", None), getattr(function, "__name__", None)
    root = (home if type(home) is str else type(function).__module__).partition(".")[0]
    text = f"an array went into {root}.{name or type(function).__name__}, which cannot be seen into"
    leave_by(text, Remedy.COMPUTE_OUTSIDE, *things)
    return [strip_nested(x) if holds_traced(x) else x for x in things]


def has_protocol(function: Callable) -> bool:
    """Whether a function of NumPy's or SciPy's asks the arrays that it is given."""
    home = getattr(function, "__module__", None)
    if isinstance(function, (_Dispatcher, np.ufunc)) or str(home).startswith(_ASKING):
        return True
    if isinstance(function, type):
        return issubclass(function, np.generic)
    if type(function) is types.BuiltinFunctionType:
        return isinstance(function.__self__, _OF_NUMPY)
    if type(function) is types.FunctionType:
        return function in _NOT_READING
    return isinstance(function, _OF_CLASSES)


#: Python code of NumPy's that does all by functions which ask.
_ASKING = ("numpy.polynomial", "numpy.testing")
#: Whose compiled methods ask.
_OF_NUMPY = (np.ndarray, np.generic, np.ufunc, *GENERATORS)
_OF_CLASSES = (types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType)
#: Python code of NumPy's that asks an array for no numbers.
_NOT_READING = frozenset({np.isfortran, np.isscalar, np.iterable})


def dispatched(function: Callable) -> Callable:
    """What stands for a function of NumPy's or SciPy's that may get arrays of the call.

    It is recorded as if NumPy asked those in lists, too, who computes.
    """
    kind, home = type(function), getattr(function, "__module__", None) or "numpy"
    name = f"{home.partition('.')[0]}.{getattr(function, '__name__', kind.__name__)}"

    def call(*args: Any, **kwargs: Any) -> Any:
        recorder = current()
        if recorder is None or recorder.depth:
            return function(*args, **kwargs)
        owner = function if kind is np.ufunc else getattr(function, "__self__", None)
        if kind is types.MethodDescriptorType:
            owner = args[0] if args else None
        if isinstance(owner, np.ufunc):
            if "array" in kwargs:  # which NumPy does not find by this name where it asks
                args = (*args, kwargs.pop("array"))
            out = kwargs.get("out")
            if any(map(is_traced, (*args, *(out if type(out) is tuple else (out,))))):
                return function(*args, **kwargs)  # NumPy asks that one
            return function(*map(_Listed.of, args), **kwargs)
        given = (*args, *kwargs.values())
        if not has_protocol(function):
            given = enter(function, given)
            return function(
                *given[: len(args)], **dict(zip(kwargs, given[len(args) :], strict=True))
            )
        if asks_another(function, given):
            text = f"{name} asks an array of another class, and reads those of the call"
            recorder.mark_dynamic(text, Remedy.STAY_ARRAYS)
        if recorder.trace.dynamic is not None or not any(map(gives_in_list, given)):
            return function(*args, **kwargs)
        if kind is _Dispatcher:
            result = TracedArray.__array_function__(None, function, (), args, kwargs)
            if is_traced(result) and not strip(result).flags.writeable:  # replays give another
                recorder.mark_dynamic(f"{name} of a list is read-only", Remedy.STAY_ARRAYS)
            return result
        if kind is type and issubclass(function, np.generic):
            return record(function, args, kwargs)
        text = f"an array in a list was given to {name}, which tells nobody"
        recorder.mark_dynamic(text, Remedy.STAY_ARRAYS)
        return function(*args, **kwargs)

    call.__module__ = "numpy"
    return call


_Dispatcher = type(np.sum)


class _Listed:
    """A list of arrays, which NumPy's universal functions ask as they ask an array."""

    def __init__(self, things: Any) -> None:
        self.things = things

    @classmethod
    def of(cls, thing: Any) -> Any:
        return cls(thing) if gives_in_list(thing) else thing

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        inputs = tuple([x.things if type(x) is _Listed else x for x in inputs])
        return TracedArray.__array_ufunc__(None, ufunc, method, *inputs, **kwargs)


def plain(thing: Any, inside: dict[int, Any] | None = None) -> Any:
    """`thing` as compiled code takes it: with Python's and NumPy's own numbers, in lists, too.

    Lists and dicts stay the same, and have the plain numbers from now on.
    """
    kind = type(thing)
    if kind in FOLLOWED:
        return thing.leave()
    if kind in LEAVING and is_traced(thing) and issubclass(kind.kind, np.generic):
        leave_by("a value left NumPy for compiled code", Remedy.STAY_ARRAYS, thing)
        return shown(thing)
    inside = {} if inside is None else inside
    if not issubclass(kind, HOLDING) or id(thing) in inside:
        return thing
    inside[id(thing)] = thing
    if issubclass(kind, tuple):
        parts = [plain(x, inside) for x in tuple.__iter__(thing)]
        same = all(map(operator.is_, parts, tuple.__iter__(thing)))
        return thing if same else tuple.__new__(kind, parts)
    is_dict = issubclass(kind, dict)
    for key, x in list(dict.items(thing) if is_dict else enumerate(list.__iter__(thing))):
        number = plain(x, inside)
        if number is not x:  # by no code of a class of the user's
            (dict if is_dict else list).__setitem__(thing, key, number)
    if kind is dict and not FOLLOWED.isdisjoint(map(type, thing)):
        items = [(plain(key), x) for key, x in thing.items()]
        thing.clear()
        thing.update(items)
    return thing


#: What `plain` looks into.
HOLDING = (list, tuple, dict)
#: By a builtin and how many arguments it gets.
STANDS: dict[tuple[Callable, int], Callable] = {
    (builtins.type, 1): type_of, (memoryview, 1): view_of, (float, 1): float_of,
    (int, 1): whole_of, (builtins.pow, 3): power,
}  # fmt: skip
