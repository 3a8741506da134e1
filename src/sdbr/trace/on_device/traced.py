"""Arrays of CuPy that know where they come from.

User code sees these while a call on a GPU is traced. Functions and methods of CuPy are recorded;
ufuncs that are reached past the module give arrays of this class without an origin, which are
noticed when they are used.
"""

from __future__ import annotations

import sys

from sdbr.base.reasons import Remedy
from sdbr.devices.arrays import ARRAYS, Array
from sdbr.trace.arrays.leaving import item_of, list_of
from sdbr.trace.arrays.provenance import OPERATORS, TracedArray, add_methods
from sdbr.trace.arrays.rewriting import take_over
from sdbr.trace.arrays.stripping import PURE, TRACED, VIEWS, is_traced, strip, strip_nested
from sdbr.trace.arrays.telling import leave_by, record
from sdbr.trace.arrays.writing import by_method, into, write
from sdbr.trace.current import current
from sdbr.trace.on_device.called import Called
from sdbr.trace.on_device.filling import fill_outputs

import numpy as np
from chainer.backends import cuda

_NAMES = {
    "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift", "neg": "negative",
    "pos": "positive", "abs": "absolute", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip
_COMPARED = ("lt", "le", "gt", "ge", "eq", "ne")
_OPERANDS = (int, float, complex, np.generic, *ARRAYS)
_WRITTEN = "an array was written in place"


class TracedOnDevice(Array):
    """A view that carries the Value it shows as `origin`; `plain` is the very array."""

    origin = None
    plain = None
    __hash__ = None

    @property
    def __class__(self):
        return Array

    def repeat(self, repeats, axis=None):
        return cuda.cupy.repeat(self, repeats, axis)

    def ptp(self, *args, **kwargs):
        return cuda.cupy.ptp(self, *args, **kwargs)

    def __iter__(self):
        return iter([self[i] for i in range(len(self))])

    def __setattr__(self, name, value):
        if name in ("dtype", "shape", "strides") and self.plain is not None:
            # The array itself changes, and all that others have of it.
            leave_by(f"the {name} of an array was set in place", Remedy.USE_FUNCTIONS, self)
            setattr(self.plain, name, value)
        Array.__setattr__(self, name, value)

    def __array_function__(self, func, types, args, kwargs):
        found = getattr(cuda.cupy, func.__name__, None)
        if found is None:
            return NotImplemented
        return found(*args, **kwargs)

    def __repr__(self):
        return repr(self._told())

    def __str__(self):
        return str(self._told())

    def _told(self):
        leave_by("a text was made of an array", Remedy.STAY_ARRAYS, self)
        return strip(self)

    def __cupy_override_elementwise_kernel__(self, kernel, *args, **kwargs):
        """CuPy asks for this: a kernel of the user's, or a ufunc past the module, is called."""
        name = getattr(kernel, "name", None) or "kernel"
        if isinstance(kernel, cuda.cupy.ufunc):
            called = Called(kernel, name.removeprefix("cupy_"))
            args = operands(called, args)
        else:
            called = Called(kernel, name, None)
        if len(args) > kernel.nin or kwargs.get("out") is not None:
            return fill_outputs(called, kernel.nin, args, kwargs)
        return record(called, args, kwargs)

    __getitem__ = TracedArray.__getitem__
    __setitem__ = TracedArray.__setitem__
    __array_ufunc__ = TracedArray.__array_ufunc__
    __format__ = TracedArray.__format__
    __round__ = TracedArray.__round__
    __copy__ = TracedArray.__copy__
    __deepcopy__ = TracedArray.__deepcopy__
    __reduce_ex__ = TracedArray.__reduce_ex__


def _add_operators() -> None:
    for name in (*OPERATORS, *_COMPARED):
        call = Called(getattr(cuda.cupy, _NAMES.get(name, name), None), _NAMES.get(name, name))
        if call.function is None:
            continue
        setattr(TracedOnDevice, f"__{name}__", _operator(call))
        if name not in (*_COMPARED, "neg", "pos", "abs", "invert"):
            setattr(TracedOnDevice, f"__r{name}__", _reflected(call))
            if hasattr(Array, f"__i{name}__"):  # ``x @= y`` makes a new array
                setattr(TracedOnDevice, f"__i{name}__", _in_place(call))


def _operator(call: Called):
    def operator(self, *other):
        if other and not isinstance(other[0], _OPERANDS):
            return NotImplemented  # a Variable, most likely
        return record(call, operands(call, (self, *other)), {})

    return operator


def _reflected(call: Called):
    def operator(self, other):
        if not isinstance(other, _OPERANDS):
            return NotImplemented
        return record(call, operands(call, (other, self)), {})

    return operator


def _in_place(call: Called):
    def write(self, other):
        return into(self, call, operands(call, (self, other)), {}, _WRITTEN)

    return write


def operands(call: Called, things: tuple) -> tuple:
    """What a ufunc is given, with arrays of the call in the place of numbers that have left."""
    recorder = current()
    if recorder is None or recorder.depth or call.as_numpy is None:
        return things
    return recorder.meeting.shown_to_numpy(call.as_numpy, things)


def _leaving(name: str):
    """A method whose result is seen by nobody."""

    def method(self, *args, **kwargs):
        leave_by(f"a value left CuPy through {name}()", Remedy.STAY_ARRAYS, self, args, kwargs)
        return getattr(strip(self), name)(*strip_nested(args), **strip_nested(kwargs))

    method.__name__ = name
    return method


def _leaving_property(name: str) -> property:
    """What tells of the memory of an array, or gives others to write there."""

    def read(self):
        package = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0]
        if package not in ("chainer", "cupy", "cupyx", "sdbr"):
            leave_by(f"a value left CuPy through {name}", Remedy.STAY_ARRAYS, self)
        return getattr(Array, name).__get__(self)

    def write(self, value):
        getattr(Array, name).__set__(self, value)

    return property(read, write)


def _get(self, stream=None, order="C", out=None, blocking=True):
    """A copy on the host, which is waited for."""
    if out is not None or order.upper() not in "CA":
        what = "an order was named in" if out is None else "an array of the host was written by"
        leave_by(f"{what} get()", Remedy.STAY_ARRAYS, self)
        return strip(self).get(stream, order, strip_nested(out), blocking)
    return record(_on_host, (self,), {})


def _on_host(array):
    return array.get()


def _set(self, arr, stream=None):
    """Contents of an array of the host."""

    def perform():
        strip(self).set(strip(arr), stream)

    sent = arr
    if is_traced(arr) and arr.origin is not PURE:
        sent = record(Called(cuda.cupy.asarray, "asarray"), (arr,), {})
    write(self, take_over, (sent,), {}, "set", _WRITTEN, perform)


def _contains(self, other):
    if self.ndim == 1:
        return bool((self == other).any())
    leave_by("a value left CuPy through in", Remedy.STAY_ARRAYS, self, other)
    return strip_nested(other) in strip(self)


def traced(array, origin):
    """A traced view of an array of CuPy."""
    made = Array.view(array, TracedOnDevice)
    made.origin, made.plain = origin, array
    return made


if cuda.available:
    add_methods(TracedOnDevice)
    TracedOnDevice.__contains__ = _contains
    _add_operators()
    for _name in (
        "toDlpack",
        "__bytes__",
        "__dlpack__",
        "mdspan",
        "reduced_view",
        "tobytes",
        "tofile",
        "dump",
        "dumps",
    ):
        setattr(TracedOnDevice, _name, _leaving(_name))
    for _name in ("__cuda_array_interface__", "cstruct", "data", "flat"):
        if hasattr(Array, _name):
            setattr(TracedOnDevice, _name, _leaving_property(_name))
    for _name in ("scatter_add", "scatter_max", "scatter_min"):
        setattr(TracedOnDevice, _name, by_method(_name))
    TracedOnDevice.get, TracedOnDevice.set = _get, _set
    TracedOnDevice.item = item_of(TracedOnDevice.item)
    TracedOnDevice.tolist = list_of(TracedOnDevice.tolist)
    TRACED.add(TracedOnDevice)
    VIEWS[Array] = traced
