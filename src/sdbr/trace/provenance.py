"""Arrays that know where they come from.

While a call is traced, user code sees arrays as :class:`TracedArray`: an
ndarray that reports to the recorder which NumPy calls are made with it, and
notices when a value leaves NumPy.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import numpy as np

_local = threading.local()
_view = np.ndarray.view
_tracing: set[int] = set()
#: Its only item: the threads that trace a call now; the compiled path looks here first.
TRACES_UNDER_WAY = [_tracing]


def current():
    """The recorder of this thread, or None."""
    return getattr(_local, "recorder", None)


def set_current(recorder) -> None:
    """Make `recorder` (or None) the recorder of this thread."""
    # A signal may come between: never a recorder that is not counted.
    if recorder is not None:
        _tracing.add(threading.get_ident())
        _local.recorder = recorder
    else:
        _local.recorder = None
        _tracing.discard(threading.get_ident())


class _Pure:
    """The origin of arrays that were made from nothing."""

    def __repr__(self) -> str:
        return "PURE"


PURE = _Pure()


class TracedArray(np.ndarray):
    """A view that carries the Value it shows as `origin`.

    NumPy calls with such arrays are recorded; a value that leaves NumPy
    (``float(x)``, a branch, ``item``) or that is written in place makes the
    trace dynamic. With `PURE` as origin nothing of that matters: the array
    has the same contents in every call.
    """

    origin = None
    plain = None  # the very array this is a view of

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if kwargs.get("out") is not None:
            out = kwargs["out"]
            _leave("an array was written in place by NumPy", inputs, kwargs)
            result = getattr(ufunc, method)(*strip_nested(inputs), **strip_nested(kwargs))
            if len(out) != 1:
                return result
            _rewritten(out[0])
            return out[0]
        call = ufunc if method == "__call__" else getattr(ufunc, method)
        return record(call, inputs, kwargs)

    def __array_function__(self, func, types, args, kwargs):
        if func in _STATIC:
            return func(*strip_nested(args), **strip_nested(kwargs))
        if (
            func in _DATA_SHAPED
            or (func is np.where and len(args) == 1)
            or (func in _COUNTED and holds_known((args[1:], kwargs)))
        ):
            _leave(
                f"the shape of the result of numpy.{func.__name__} depends on values", args, kwargs
            )
            return func(*strip_nested(args), **strip_nested(kwargs))
        if func in _WRITERS or kwargs.get("out") is not None:
            _leave(f"an array was written in place by numpy.{func.__name__}", args, kwargs)
            return func(*strip_nested(args), **strip_nested(kwargs))
        return record(func, args, kwargs)

    def __getitem__(self, key):
        for part in key if isinstance(key, tuple) else (key,):
            if (isinstance(part, np.ndarray) and part.dtype == bool) or (
                isinstance(part, list) and any(isinstance(p, bool) for p in part)
            ):
                _leave("the shape of a boolean selection depends on values", self, key)
                return strip(self)[strip_nested(key)]
        return record(_getitem, (self, key), {})

    def __setitem__(self, key, value):
        _leave("an array was written in place", self, key, value)
        strip(self)[strip_nested(key)] = strip_nested(value)
        _rewritten(self)

    def __iter__(self):
        return iter([self[i] for i in range(len(self))])

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
        """What code sees of a number as a text, a key and the like; arrays may be printed."""
        thing = shown(self)
        if thing.ndim == 0:
            _leave("a value left NumPy through str(), round() or hash()", self)
        return thing

    def __reduce__(self):
        return strip(self).__reduce__()

    def __deepcopy__(self, memo):
        return self.copy()


def _getitem(array, key):
    return array[key]


def _recorded(name):
    plain = getattr(np.ndarray, name)

    def call(array, *args, **kwargs):
        return plain(array, *args, **kwargs)

    call.__name__ = name

    def method(self, *args, **kwargs):
        return record(call, (self, *args), kwargs)

    method.__name__ = name
    return method


def _recorded_property(name):
    def call(array):
        return getattr(array, name)

    call.__name__ = name
    return property(lambda self: record(call, (self,), {}))


def _leaving(name, what):
    plain = getattr(np.ndarray, name)

    def method(self, *args, **kwargs):
        _leave(what, self, args, kwargs)
        return plain(strip(self), *strip_nested(args), **strip_nested(kwargs))

    method.__name__ = name
    return method


for _name in [
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
]:
    setattr(TracedArray, _name, _recorded(_name))
for _name in ("T", "real", "imag"):
    setattr(TracedArray, _name, _recorded_property(_name))
for _name in [
    "__float__",
    "__int__",
    "__index__",
    "__bool__",
    "__complex__",
    "__contains__",
    "item",
    "tolist",
    "tobytes",
    "tofile",
    "dump",
    "dumps",
]:
    setattr(TracedArray, _name, _leaving(_name, f"a value left NumPy through {_name.strip('_')}()"))


def _in_place(name):
    plain = getattr(np.ndarray, name)

    def method(self, other):
        if getattr(self.origin, "is_scalar", False):
            return NotImplemented  # a NumPy scalar is not written: Python makes a new one
        return plain(self, other)

    method.__name__ = name
    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"):
    setattr(TracedArray, f"__i{_name}__", _in_place(f"__i{_name}__"))
for _name in ("nonzero", "compress"):
    setattr(
        TracedArray, _name, _leaving(_name, f"the shape of the result of {_name} depends on values")
    )


def _repeat(self, repeats, axis=None):
    return np.repeat(self, repeats, axis)


TracedArray.repeat = _repeat
for _name in ("fill", "put", "sort", "partition", "resize"):
    setattr(TracedArray, _name, _leaving(_name, f"an array was written in place by {_name}"))

_STATIC = {
    np.shape, np.ndim, np.size, np.result_type, np.can_cast, np.common_type, np.may_share_memory,
    np.shares_memory, np.iscomplexobj, np.isrealobj, np.empty_like, np.zeros_like, np.ones_like,
    np.full_like, np.broadcast_shapes,
}  # fmt: skip
_DATA_SHAPED = {
    np.nonzero, np.flatnonzero, np.argwhere, np.unique, np.extract, np.compress, np.intersect1d,
    np.union1d, np.setdiff1d, np.setxor1d, np.trim_zeros, np.histogram, np.bincount, np.delete,
    np.allclose, np.array_equal, np.array_equiv,
}  # fmt: skip
# Their results have shapes that depend on the values of the second argument.
_COUNTED = {np.repeat, np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit}
_WRITERS = {np.copyto, np.put, np.place, np.putmask, np.fill_diagonal, np.put_along_axis}


def strip(array):
    """The plain array behind a traced one; anything else unchanged."""
    if type(array) is not TracedArray:
        return array
    return _view(array, np.ndarray) if array.plain is None else array.plain


def shown(thing):
    """What define-by-run has in the place of `thing`: a plain array, a NumPy scalar, itself."""
    plain = strip(thing)
    if plain is not thing and plain.ndim == 0 and getattr(thing.origin, "is_scalar", False):
        return plain[()]
    return plain


def strip_nested(thing):
    """Strip inside tuples, lists and dicts."""
    kind = type(thing)
    if kind is TracedArray:
        return strip(thing)
    if kind is tuple:
        return tuple(strip_nested(t) for t in thing)
    if kind is list:
        return [strip_nested(t) for t in thing]
    if kind is dict:
        return {k: strip_nested(v) for k, v in thing.items()}
    leave = LEAVING.get(kind)
    return thing if leave is None else leave(thing)


#: Classes of other traced things, each with what takes the plain thing out of one.
LEAVING: dict[type, Callable] = {}


def wrap(array, origin) -> TracedArray:
    """A traced view of `array` that shows Value `origin`."""
    traced = _view(array, TracedArray)
    traced.origin = origin
    traced.plain = array
    return traced


def record(call, args, kwargs):
    """Make a NumPy call and tell the recorder of this thread."""
    result = call(*strip_nested(tuple(args)), **strip_nested(kwargs))
    recorder = current()
    if recorder is None or recorder.depth:
        return result
    if not holds_known((args, kwargs)):
        return result if holds_unknown((args, kwargs)) else _made(recorder, result)
    return recorder.numpy_call(call, args, kwargs, result)


def _made(recorder, result):
    """What a NumPy call on pure arrays gives, as pure arrays."""
    if type(result) is np.ndarray:
        return recorder.made(result)
    if type(result) in (tuple, list):  # such as numpy.meshgrid's
        return type(result)([_made(recorder, part) for part in result])
    return result


def _leave(reason: str, *things) -> None:
    """Values of `things` go where the recorder cannot see them."""
    recorder = current()
    if recorder is None or recorder.depth:
        return
    if holds_known(things):
        recorder.mark_dynamic(reason)
    elif holds_unknown(things):
        recorder.trace.unconfirmed = True


def _rewritten(array) -> None:
    """A pure array got new contents before our eyes."""
    recorder = current()
    if (
        recorder is not None
        and not recorder.depth
        and type(array) is TracedArray
        and array.origin is PURE
    ):
        recorder.made(array.plain)


def holds_known(thing) -> bool:
    """Whether `thing` contains a traced array that is not pure."""
    kind = type(thing)
    if kind is TracedArray:
        return thing.origin is not PURE
    if kind in (tuple, list):
        return any(map(holds_known, thing))
    return kind is dict and any(map(holds_known, thing.values()))


def holds_traced(thing) -> bool:
    """Whether `thing` contains a traced array, or what else is traced."""
    kind = type(thing)
    if kind in (tuple, list):
        return any(map(holds_traced, thing))
    return (
        kind is TracedArray
        or kind in LEAVING
        or (kind is dict and any(map(holds_traced, thing.values())))
    )


def holds_unknown(thing) -> bool:
    """Whether `thing` contains an array that is not traced, or a pure one filled unseen."""
    kind = type(thing)
    if kind is TracedArray:
        return thing.origin is PURE and current().was_filled(thing.plain)
    if kind in (tuple, list):
        return any(map(holds_unknown, thing))
    if kind is dict:
        return any(map(holds_unknown, thing.values()))
    return isinstance(thing, np.ndarray)


_INSIDE = frozenset({"chainer", "sdbr", "numpy", *(sys.stdlib_module_names - {"__main__"})})


def user_line() -> str:
    """``file:line in function`` of the innermost frame outside of libraries."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.partition(".")[0] not in _INSIDE:
            code = frame.f_code
            return f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"
        frame = frame.f_back
    return ""
