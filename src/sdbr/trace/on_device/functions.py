"""Functions of CuPy while a call on a GPU is traced: recorded, or noticed."""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
import types
from collections.abc import Callable
from typing import Any

from sdbr.base.reasons import Remedy
from sdbr.compat.patches import PatchSet
from sdbr.devices.arrays import Array
from sdbr.trace.arrays.asking import COUNTED, COUNTING, SHAPED, count, in_order, settled
from sdbr.trace.arrays.creation import (
    CREATORS,
    DRAWS,
    SETTERS,
    creating,
    only_numbers,
    recorded_draw,
    setting,
)
from sdbr.trace.arrays.stripping import holds_known, holds_traced, strip_nested
from sdbr.trace.arrays.telling import leave_by, record, unseen
from sdbr.trace.arrays.writing import (
    GIVING_VIEWS,
    by_function,
    into,
    may_write_unseen,
    record_unless_written,
    replace_nans,
)
from sdbr.trace.code.frames import called_by_machinery
from sdbr.trace.current import current
from sdbr.trace.on_device.called import Called
from sdbr.trace.on_device.filling import fill_outputs, launch
from sdbr.trace.on_device.traced import operands

import chainer
import numpy as np
from chainer.backends import cuda

#: These write into what they are given.
_WRITERS = frozenset({
    "copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis", "scatter_add",
    "scatter_max", "scatter_min",
})  # fmt: skip
#: Their results have as many entries as their argument has that are not zero.
_COUNTING = frozenset(function.__name__ for function in COUNTING)
#: Shapes of what these give depend on what comes after their first argument.
_COUNTED = frozenset(function.__name__ for function in COUNTED)
_SETTLED = _COUNTED.union(function.__name__ for function in SHAPED)
#: The shapes of what these give depend on values.
_SHAPED_BY_VALUES = frozenset({
    "unique", "extract", "compress", "histogram", "bincount",
    "delete", "trim_zeros", "union1d", "intersect1d",
})  # fmt: skip
#: What these give is no array of a GPU, or lies wherever they were told.
_LEAVING = frozenset({"save", "savez", "savetxt", "array_repr", "array_str", "as_strided"})
#: These tell nothing of values.
_HARMLESS = frozenset({
    "shape", "ndim", "size", "result_type", "can_cast", "common_type", "get_array_module",
    "may_share_memory", "shares_memory", "empty_like", "zeros_like", "ones_like", "isscalar",
})  # fmt: skip


#: While a call is traced this name stands for something else.
_RAW_KERNEL: Any = getattr(getattr(cuda, "cupy", None), "RawKernel", ())
#: Methods of ufuncs.
_METHODS = frozenset({"accumulate", "at", "outer", "reduce", "reduceat"})


class Watched:
    """A function of CuPy that tells the recorder of calls with arrays of the traced call."""

    def __init__(self, function: Callable, name: str, module: Any = np) -> None:
        self._function, self._name = function, name
        self._is_ufunc = isinstance(function, cuda.cupy.ufunc)
        self._called = Called(function, name, module)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._function, name)
        return Watched(found, f"{self._name}.{name}") if name in _METHODS else found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder = current()
        if recorder is None or recorder.depth:
            return self._function(*args, **kwargs)
        if not holds_traced((args, kwargs)):
            return self._of_numbers(recorder, args, kwargs)
        if self._name in _HARMLESS:
            return self._function(*strip_nested(args), **strip_nested(kwargs))
        writes, args, kwargs = self._named_out(args, kwargs)
        if writes or self._name in _WRITERS or self._name[-3:] == ".at":
            return self._write(args, kwargs)
        return self._computed(args, kwargs)

    def _named_out(self, args: tuple, kwargs: dict) -> tuple[bool, tuple, dict]:
        """Whether an array is named for what the call gives; then by its name."""
        if self._is_ufunc and len(args) > self._function.nin:
            kwargs = {**kwargs, "out": args[self._function.nin :]}
            args = args[: self._function.nin]
        elif not self._is_ufunc and len(args) > 1:
            names = _names_of(self._function)
            at = names.index("out") if "out" in names else len(args)
            if at < len(args) and args[at] is not None:
                kwargs = {**kwargs, **dict(zip(names[at:], args[at:], strict=False))}
                args = args[:at]
        return kwargs.get("out") is not None, args, kwargs

    def _computed(self, args: tuple, kwargs: dict) -> Any:
        """A call that writes nowhere."""
        name = self._name
        if name in _SETTLED:
            args = (*args[:1], *settled(args[1:]))
            kwargs = {key: settled(thing) for key, thing in kwargs.items()}
        if name in ("ravel", "reshape"):
            args, kwargs = in_order(name, args, kwargs)
        if name in _COUNTING and len(args) == 1 and not kwargs:
            count(args[0])
        elif name in _SHAPED_BY_VALUES or (name in _COUNTED and holds_known((args[1:], kwargs))):
            text = f"the shape of the result of cupy.{name} depends on values"
            return self._left(text, args, kwargs)
        elif name == "asnumpy" and isinstance(args[0], Array):
            return args[0].get(*args[1:], **kwargs)
        elif name in _LEAVING:
            return self._left(f"a value left CuPy through {name}()", args, kwargs)
        elif name == "nan_to_num":
            return replace_nans(self._called, *args, **kwargs)
        elif may_write_unseen(self._called, args, kwargs):
            return self._left(f"an array may be written in place by cupy.{name}", args, kwargs)
        if self._called.as_numpy in GIVING_VIEWS:
            return record_unless_written(self._called, args, kwargs)
        if self._is_ufunc:
            args = operands(self._called, args)
        return record(self._called, args, kwargs)

    def _write(self, args: tuple, kwargs: dict) -> Any:
        """A call that writes into an array."""
        if kwargs.get("out") is None:
            return by_function(self._called, args, kwargs)
        out, kwargs = kwargs["out"], {k: thing for k, thing in kwargs.items() if k != "out"}
        if type(out) is tuple and len(out) != 1:
            return fill_outputs(self._called, len(args), args, {**kwargs, "out": out})
        (out,) = out if type(out) is tuple else (out,)
        text = f"an array was written in place by cupy.{self._name}"
        if self._is_ufunc:
            args = operands(self._called, args)
        return into(out, self._called, args, kwargs, text)

    def _left(self, text: str, args: tuple, kwargs: dict) -> Any:
        leave_by(text, Remedy.STAY_ARRAYS, args, kwargs)
        return self._function(*strip_nested(args), **strip_nested(kwargs))

    def _of_numbers(self, recorder: Any, args: tuple, kwargs: dict) -> Any:
        """What is made of numbers alone is made from nothing."""
        result = unseen(recorder, self._function, *args, **kwargs)
        if type(result) is not Array or called_by_machinery(sys._getframe(2)):
            return result
        if not only_numbers([*args, *kwargs.values()]):
            return result
        return recorder.values.made(result)


class WatchedKernel(Watched):
    """A kernel of the user's that CuPy tells nobody of: what it is given is computed with."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder = current()
        if recorder is not None and not recorder.depth and holds_traced((args, kwargs)):
            kernel = self._function
            if isinstance(kernel, _RAW_KERNEL):
                return launch(kernel, self._called, args, kwargs)
            return fill_outputs(self._called, kernel.nin, args, kwargs)
        return self._function(*strip_nested(args), **strip_nested(kwargs))


class WatchedModule:
    """A `RawModule`, whose kernels are watched."""

    def __init__(self, module: Any):
        self._module = module
        self.get_function = _making(module.get_function)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _watched_kernel(kernel: Any) -> WatchedKernel:
    return WatchedKernel(kernel, getattr(kernel, "name", "kernel"), None)


def _making(original: Callable, watched: Callable = _watched_kernel) -> Callable:
    """What makes a kernel: user code gets a watched one, which nobody else keeps."""

    def make(*args, **kwargs):
        recorder = current()
        if recorder is None or recorder.depth:
            return original(*args, **kwargs)
        return watched(unseen(recorder, original, *args, **kwargs))

    return make


def _making_modules(original: Callable) -> Callable:
    return _making(original, WatchedModule)


def _watching(name: str, module: Any = np) -> Callable:
    return lambda original: Watched(original, name, module)


def _functions_in(module: Any) -> list[str]:
    """The functions of a module that may be given arrays."""
    found = []
    for name in dir(module):
        thing = None if name.startswith("_") else getattr(module, name, None)
        if callable(thing) and not isinstance(thing, (type, types.ModuleType)):
            found.append(name)
    return found


@functools.lru_cache(maxsize=1024)
def _names_of(function: Callable) -> tuple[str, ...]:
    """The names of the arguments of a function by their positions, where these are known."""
    try:
        every = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    named = itertools.takewhile(lambda parameter: parameter.kind in kinds, every)
    return tuple(parameter.name for parameter in named)


#: In place while a call on a GPU is traced.
ON_DEVICE = PatchSet("cupy")
#: What stands for kernels that were made before.
_BY_CLASS: dict[type, Callable] = {}


def instead_of(thing: Any) -> Any:
    """What user code shall call in the place of something of CuPy's, on a GPU; None for itself."""
    make = _BY_CLASS.get(type(thing))
    return ON_DEVICE.instead_of(thing) if make is None else make(thing)


def _register() -> None:
    cupy = cuda.cupy
    creators = [name for name in CREATORS if hasattr(cupy, name)]
    for name in creators:
        ON_DEVICE.register(cupy, name, creating)
    for name in _functions_in(cupy):
        if name not in creators:
            ON_DEVICE.register(cupy, name, _watching(name))
    for name in ("ReductionKernel", "RawKernel"):
        _BY_CLASS[getattr(cupy, name)] = _watched_kernel
        ON_DEVICE.register(cupy, name, _making)
    _BY_CLASS[cupy.RawModule] = WatchedModule
    ON_DEVICE.register(cupy, "RawModule", _making_modules)
    for module in (cuda, chainer.cuda):
        for name in ("reduce", "raw"):
            ON_DEVICE.register(module, name, _making)
    for module, like in (
        (cuda.cupyx, None),
        (cuda.cupyx.scipy.special, None),
        (cupy.linalg, np.linalg),
        (cupy.fft, np.fft),
        (cupy.lib.stride_tricks, np.lib.stride_tricks),
    ):
        for name in _functions_in(module):
            ON_DEVICE.register(module, name, _watching(name, like))
    for name in DRAWS:
        if hasattr(cupy.random, name):
            ON_DEVICE.register(cupy.random, name, recorded_draw)
    for name in SETTERS:
        if hasattr(cupy.random, name):
            ON_DEVICE.register(cupy.random, name, setting)


if cuda.available and Array is cuda.ndarray:
    _register()
