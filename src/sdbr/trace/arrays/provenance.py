"""Arrays that know where they come from.

While a call is traced, user code sees arrays as :class:`TracedArray`: an
ndarray that reports to the recorder which NumPy calls are made with it, and
notices when a value leaves NumPy.
"""

from __future__ import annotations

import sys

from sdbr.base.reasons import Remedy
from sdbr.devices.arrays import ARRAYS
from sdbr.trace.arrays._exports import count_exports, was_exported
from sdbr.trace.arrays.asking import (
    COUNTED,
    COUNTING,
    SHAPED,
    ask_layout,
    count,
    in_order,
    may_ask,
    settled,
    telling_layout,
    viewing,
)
from sdbr.trace.arrays.forms import KEEPS_FORM, is_decided, method_is_decided, record_with_form
from sdbr.trace.arrays.stripping import (
    PURE,
    TRACED,
    holds_known,
    is_traced,
    shown,
    strip,
    strip_nested,
)
from sdbr.trace.arrays.telling import leave_by, note_export, record
from sdbr.trace.arrays.writing import (
    GIVING_VIEWS,
    as_index,
    at,
    by_function,
    by_method,
    into,
    may_write_unseen,
    record_unless_written,
    replace_nans,
    set_item,
)
from sdbr.trace.code.foreign import foreign_caller
from sdbr.trace.current import current

import numpy as np


@count_exports
class TracedArray(np.ndarray):
    """A view that carries the Value it shows as `origin`.

    NumPy calls with such arrays are recorded; a value that leaves NumPy
    (``float(x)``, a branch, ``item``) or that is written in place makes the
    trace dynamic. With `PURE` as origin nothing of that matters: the array
    has the same contents in every call.

    It says of itself that it is not aligned: what compiled code asks NumPy for is then a copy,
    which `__array_finalize__` sees. Who takes its memory as a buffer leaves a trace in it.
    """

    origin = None
    plain = None  # the very array this is a view of

    @property
    def __class__(self):
        return np.ndarray

    def __array_finalize__(self, like):
        if type(like) is TracedArray and like.origin is not None:
            leave_by("an array was read by compiled code", Remedy.STAY_ARRAYS, like)

    # Names are gone when the process ends.
    def __del__(self, was_exported=was_exported, note_export=note_export):
        if was_exported(self):
            note_export(self)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        call = ufunc if method == "__call__" else getattr(ufunc, method)
        text = "an array was written in place by NumPy"
        if method != "__call__":  # NumPy gives twice what has come by name
            kwargs = {name: x for name, x in kwargs.items() if name not in ("array", "indices")}
        recorder = current()
        if recorder is not None and call is ufunc and _WEAK.issuperset(kwargs):
            inputs = recorder.meeting.shown_to_numpy(ufunc, inputs)
        if kwargs.get("out") is not None:
            out = kwargs["out"]
            if len(out) == 1:
                kwargs = {name: thing for name, thing in kwargs.items() if name != "out"}
                return into(out[0], call, inputs, kwargs, text)
            leave_by(text, Remedy.NEW_ARRAY, inputs, kwargs)
            return call(*strip_nested(inputs), **strip_nested(kwargs))
        if method == "at":
            return at(ufunc, inputs)
        return record(call, inputs, kwargs)

    def __array_function__(self, func, types, args, kwargs):
        if func in _STATIC:
            if func in (np.may_share_memory, np.shares_memory):
                leave_by("it was asked whether arrays share memory", Remedy.DO_OUTSIDE, args)
            if "shape" in kwargs:
                shape = kwargs["shape"]
                is_row = is_traced(shape) and shape.ndim == 1
                kwargs = {**kwargs, "shape": settled(list(shape) if is_row else shape)}
            return func(*strip_nested(args), **strip_nested(kwargs))
        if func in SHAPED or func in COUNTED:
            counted = func in COUNTED
            args = (*args[:1], *settled(args[1:], floats=counted))
            kwargs = {name: settled(thing, floats=counted) for name, thing in kwargs.items()}
        if "axis" in kwargs:
            kwargs = {**kwargs, "axis": settled(kwargs["axis"])}
        if func in COUNTING and len(args) == 1 and not kwargs and is_traced(args[0]):
            count(args[0])
            return record(func, args, kwargs)
        if func in _WRITERS:
            return by_function(func, args, kwargs)
        if func in (np.ravel, np.reshape):
            args, kwargs = in_order(func.__name__, args, kwargs)
        if func is np.nan_to_num:
            return replace_nans(func, *args, **kwargs)
        if may_write_unseen(func, args, kwargs):
            text = f"an array may be written in place by numpy.{func.__name__}"
            leave_by(text, Remedy.NEW_ARRAY, args, kwargs)
            return func(*strip_nested(args), **strip_nested(kwargs))
        if func in GIVING_VIEWS:
            return record_unless_written(func, args, kwargs)
        if func in KEEPS_FORM and not is_decided(func, args, kwargs):
            return _recorded_or_written(func, args, kwargs)
        if kwargs.get("out") is not None:
            text = f"the shape of the result of numpy.{func.__name__} depends on values"
            leave_by(text, Remedy.NEW_ARRAY, args, kwargs)
            return func(*strip_nested(args), **strip_nested(kwargs))
        return record_with_form(func, args, kwargs)

    def __getitem__(self, key):
        if _picks_number(self, key):
            key = as_index(self, key)  # what it gives is no view
        key = settled(key, slices_alone=True)
        for part in key if isinstance(key, tuple) else (key,):
            if (isinstance(part, ARRAYS) or is_traced(part)) and part.dtype == bool:
                count(part)
            elif isinstance(part, list) and any(_is_truth(p) for p in part):
                leave_by(
                    "the shape of a boolean selection depends on values",
                    Remedy.STAY_ARRAYS,
                    self,
                    key,
                )
                return strip(self)[strip_nested(key)]
        return record(_getitem, (self, key), {})

    def __setitem__(self, key, value):
        set_item(self, settled(as_index(self, key), slices_alone=True), value)

    def __iter__(self):
        return iter([self[i] for i in range(len(self))])

    def __setattr__(self, name, value):
        if name in _LAYOUT:
            # The array itself changes, and all that others have of it.
            leave_by(f"the {name} of an array was set in place", Remedy.USE_FUNCTIONS, self)
            if self.plain is not None:
                setattr(self.plain, name, value)
        np.ndarray.__setattr__(self, name, value)

    def __repr__(self):
        return repr(self._told())

    def __str__(self):
        return str(self._told())

    def __format__(self, spec):
        return format(self._told(), spec)

    def __round__(self, digits=None):
        return round(self._told(), digits)

    def __hash__(self):
        return hash(self._told())

    def _told(self):
        """What code sees of an array or number as a text, a key and the like."""
        leave_by("a value left NumPy through str(), round() or hash()", Remedy.STAY_ARRAYS, self)
        return shown(self)

    def __reduce_ex__(self, protocol):
        leave_by("a value left NumPy through pickle", Remedy.STAY_ARRAYS, self)
        return shown(self).__reduce_ex__(protocol)

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    @property
    def base(self):
        ask_layout()
        behind = strip(self).base
        if behind is not None:
            leave_by("a value left NumPy through base", Remedy.STAY_ARRAYS, self)
        return behind


def _is_truth(thing) -> bool:
    return isinstance(thing, bool) or (is_traced(thing) and thing.dtype == bool)


def _picks_number(array, key) -> bool:
    """Whether a key of numbers alone picks one element."""
    parts = key if type(key) is tuple else (key,)
    return len(parts) == array.ndim and all(isinstance(part, int) for part in parts)


def _getitem(array, key):
    return array[key]


def _recorded_or_written(call, args, kwargs):
    """Record a call, which may have an ``out``."""
    out = kwargs.get("out")
    if out is None:
        return record(call, args, kwargs)
    text = f"an array was written in place by numpy.{call.__name__}"
    if isinstance(out, tuple) and len(out) == 1:
        out = out[0]
    if not isinstance(out, ARRAYS):
        leave_by(text, Remedy.NEW_ARRAY, args, kwargs)
        return call(*strip_nested(args), **strip_nested(kwargs))
    kwargs = {name: thing for name, thing in kwargs.items() if name != "out"}
    return into(out, call, args, kwargs, text)


def _recorded(name):
    def call(array, *args, **kwargs):
        return getattr(array, name)(*args, **kwargs)

    call.__name__ = name

    def method(self, *args, **kwargs):
        if name in ("reshape", "transpose"):
            args = settled(args)
        args = (self, *args)
        if name in ("flatten", "ravel", "reshape"):
            args, kwargs = in_order(name, args, kwargs)
        if kwargs.get("out") is None and method_is_decided(name, args[1:], kwargs):
            return record_with_form(call, args, kwargs)
        return _recorded_or_written(call, args, kwargs)

    method.__name__ = name
    return method


def _recorded_property(name):
    def call(array):
        return getattr(array, name)

    def write(self, value):
        setattr(strip(self), name, strip_nested(value))
        leave_by(f"an array was written in place through {name}", Remedy.NEW_ARRAY, self, value)
        recorder = current()
        if recorder is not None and not recorder.depth and self.origin is PURE:
            recorder.memory.rewritten_from_nothing(self.plain)

    call.__name__ = name
    return property(lambda self: record(call, (self,), {}), write)


def _leaving(name, what, remedy):
    def method(self, *args, **kwargs):
        if holds_known(self):
            ask_layout()
        leave_by(what, remedy, self, args, kwargs)
        return getattr(strip(self), name)(*strip_nested(args), **strip_nested(kwargs))

    method.__name__ = name
    return method


def _asking(name, kind):
    """A method that gives a number which decides about the way: a question of the call."""
    text = f"a value left NumPy through {name.strip('_')}()"

    def method(self, *args):
        array, recorder = strip(self), current()
        try:
            answer = getattr(array, name)(*args)
        except ValueError:  # of NaN; other errors follow from shapes and dtypes
            leave_by(f"an error of {name} was raised during the call", Remedy.CATCH_OUTSIDE, self)
            raise
        if recorder is None or recorder.depth:
            return answer
        foreign = foreign_caller(sys._getframe(1))
        if args or foreign is not None or not may_ask(array, answer) or not holds_known(self):
            leave_by(text, Remedy.STAY_ARRAYS, self, args)
        else:
            recorder.questions.ask(self, kind, int(answer), text)
        return answer

    method.__name__ = name
    return method


_RECORDED = (
    "all",
    "any",
    "argmax",
    "argmin",
    "argpartition",
    "argsort",
    "astype",
    "choose",
    "clip",
    "conj",
    "conjugate",
    "copy",
    "cumprod",
    "cumsum",
    "diagonal",
    "dot",
    "flatten",
    "max",
    "mean",
    "min",
    "prod",
    "ravel",
    "reshape",
    "round",
    "searchsorted",
    "squeeze",
    "std",
    "sum",
    "swapaxes",
    "take",
    "trace",
    "transpose",
    "var",
    "view",
    "byteswap",
)
_PROPERTIES = ("T", "mT", "real", "imag")
_CONVERSIONS = (
    "__float__",
    "__complex__",
    "tolist",
    "tobytes",
    "tofile",
    "dump",
    "dumps",
    "__array__",
)


def add_methods(cls: type) -> None:
    """Give a class of traced things the methods of arrays that are recorded or noticed."""
    for name in _RECORDED:
        setattr(cls, name, _recorded(name))
    cls.view = viewing(cls.view)
    cls.strides, cls.flags = telling_layout("strides"), telling_layout("flags")
    for name in _PROPERTIES:
        if hasattr(np.ndarray, name):
            setattr(cls, name, _recorded_property(name))
    for name in _CONVERSIONS:
        told = "a conversion" if name == "__array__" else f"{name.strip('_')}()"
        setattr(cls, name, _leaving(name, f"a value left NumPy through {told}", Remedy.STAY_ARRAYS))
    for name, kind in (("__bool__", bool), ("__int__", int), ("__index__", int), ("item", int)):
        setattr(cls, name, _asking(name, kind))
    cls.__contains__ = lambda self, other: bool((self == other).any())
    cls.nonzero = lambda self: np.nonzero(self)
    cls.compress = lambda self, condition, axis=None, out=None: np.compress(
        condition, self, axis, **({} if out is None else {"out": out})
    )
    for name in ("fill", "put", "sort", "partition"):
        setattr(cls, name, by_method(name))
    for name in ("resize", "setfield", "setflags"):
        setattr(
            cls, name, _leaving(name, f"an array was written in place by {name}", Remedy.NEW_ARRAY)
        )


TRACED.add(TracedArray)
add_methods(TracedArray)


def _repeat(self, repeats, axis=None):
    return np.repeat(self, repeats, axis)


TracedArray.repeat = _repeat


def _leaving_property(name):
    """What else an array has tells its values in some way that cannot be followed."""

    def read(self):
        # Chainer's code asks Variables for it; of an array it wants to know the module at most.
        if name == "data" and sys._getframe(1).f_globals.get("__name__", "")[:8] == "chainer.":
            return strip(self).data
        ask_layout()
        leave_by(f"a value left NumPy through {name}", Remedy.STAY_ARRAYS, self)
        return getattr(strip(self), name)

    def write(self, value):
        leave_by(f"an array was written in place through {name}", Remedy.NEW_ARRAY, self, value)
        setattr(strip(self), name, strip_nested(value))

    return property(read, write)


# What tells nothing about values; operators come back as ufuncs.
_HARMLESS = frozenset({
    "shape", "dtype", "ndim", "size", "itemsize", "nbytes", "device",
    "__len__", "__dlpack_device__", "__array_namespace__", "__array_priority__",
    "__array_wrap__", "__array_prepare__", "__class_getitem__", "__reduce__", "__delitem__",
})  # fmt: skip
OPERATORS = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "and", "or", "xor",
    "lshift", "rshift", "matmul", "neg", "pos", "abs", "invert",
)  # fmt: skip


def _name_the_rest() -> None:
    operators = {f"__{part}{name}__" for name in OPERATORS for part in ("", "r", "i")}
    for name in set(dir(np.ndarray)) - set(dir(object)) - _HARMLESS - operators:
        if name not in TracedArray.__dict__:
            setattr(TracedArray, name, _leaving_property(name))


_name_the_rest()

_LAYOUT = ("shape", "dtype", "strides")
#: With these alone the operands of a ufunc decide about dtypes.
_WEAK = frozenset(("out", "where"))
_STATIC = {
    np.shape, np.ndim, np.size, np.result_type, np.can_cast, np.common_type, np.may_share_memory,
    np.shares_memory, np.iscomplexobj, np.isrealobj, np.empty_like, np.zeros_like, np.ones_like,
    np.full_like, np.broadcast_shapes,
}  # fmt: skip
_WRITERS = {np.copyto, np.put, np.place, np.putmask, np.fill_diagonal, np.put_along_axis}
