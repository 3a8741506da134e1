"""Writes into traced arrays: recorded where the memory is the call's or a link's, else dynamic."""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator
from typing import Any

from sdbr.base.reasons import Remedy
from sdbr.devices.arrays import ARRAYS
from sdbr.trace.arrays._exports import address
from sdbr.trace.arrays._scalars import Left
from sdbr.trace.arrays.asking import ask_layout
from sdbr.trace.arrays.memories import MOVES, Moving, moving_of
from sdbr.trace.arrays.rewriting import (
    At,
    Into,
    Method,
    Rewriting,
    Through,
    assign,
    fill,
    take_over,
)
from sdbr.trace.arrays.stripping import (
    PURE,
    holds_known,
    holds_unknown,
    is_traced,
    shown,
    strip,
    strip_nested,
)
from sdbr.trace.arrays.telling import leave_by, note_foreign, record
from sdbr.trace.arrays.traced_float import FOLLOWED, plain_float
from sdbr.trace.current import current
from sdbr.trace.values import Hole

import numpy as np

_ARRAY = np.array  # while a call is traced that of the module makes arrays of the trace


def write(target, how: Callable, args: tuple, kwargs: dict, name: str, text: str, perform) -> Any:
    """Write into a traced array and tell the recorder of this thread.

    Parameters
    ----------
    target : TracedArray or TracedScalar
    how : callable
        ``how(view, *args, **kwargs)`` does what `perform` does, to another view.
    args : tuple
    kwargs : dict
    name : str
        What NumPy calls it.
    text : str
        What to say where that cannot be recorded.
    perform : callable
        Writes into the plain array.
    """
    recorder = current()
    if recorder is None or recorder.depth:
        return perform()
    note_foreign(recorder, target, args, kwargs)
    if recorder.memory.either_way:
        ask_layout()  # whether others see the write
    if recorder.trace.dynamic is not None:
        return perform()
    perform = recorder.views.seen_writing(strip(target), perform)
    memory = recorder.memory.memory_of(strip(target)) if is_traced(target) else None
    if not holds_known((target, args, kwargs)):
        if memory is not None and memory.taken:
            recorder.mark_dynamic(_after(text, memory.taken), Remedy.NEW_ARRAY)
        elif holds_unknown((args, kwargs)) or not is_traced(target):
            recorder.values.computed_unseen()
        result = perform()
        if is_traced(target) and target.origin is PURE:
            recorder.memory.rewritten_from_nothing(target.plain)
        return result
    if memory is not None and memory.taken is None and not recorder.lasting.may_follow(memory):
        memory.taken = memory.kept
    if memory is None or memory.taken or recorder.nodes.forgotten is not None:
        if recorder.nodes.forgotten is not None:
            recorder.nodes.forgotten.fail("an array is written in place inside")
        else:
            lasts = memory is not None and memory.first is not None
            text = text if memory is None else _after(text, memory.taken)
            recorder.mark_dynamic(text, Remedy.ASSIGN_IT if lasts else Remedy.NEW_ARRAY)
        return perform()
    return _recorded(recorder, memory, target, how, args, kwargs, name, perform)


def _recorded(recorder, memory, target, how: Callable, args, kwargs, name: str, perform) -> Any:
    """Write, and record it as a call that gives the next version of the memory."""
    recorder.views.check_exports()
    inputs = [recorder.memory.version(memory)]
    given: list = []
    place, front = memory.place(strip(target)), ()
    moving = moving_of(memory, strip(target))
    if moving is not None:
        place, how, front = _through(recorder, moving, how)
        inputs += moving.node.inputs[1:]
    holes = (
        recorder.calls.holes(tuple(args), inputs, given),
        recorder.calls.holes(dict(kwargs), inputs, given),
    )
    try:
        result = perform()
    except Exception:
        recorder.mark_dynamic(
            f"an error of numpy {name} was raised during the call", Remedy.CATCH_OUTSIDE
        )
        raise
    rewriting = Rewriting(how, place, name)
    recorder.memory.rewritten(memory, rewriting, inputs, (Hole(0), *front, *holes[0]), holes[1])
    return result


def _through(recorder, moving: Moving, how: Callable) -> tuple:
    """Where to write instead of a view that moves: place, how, and what finds the view there."""
    call, args, kwargs = moving.node.call
    if moving.place is None or kwargs:
        recorder.mark_dynamic(MOVES, Remedy.NEW_ARRAY)
        return moving.place, how, ()
    front = tuple(args[1:])
    if how is take_over and call.__name__ == "_getitem":
        return moving.place, assign, front
    return moving.place, Through(call, len(front), how), front


def _as_array(value, beside=None):
    """A number of the call as an array of it, to be written into `beside`; so a list of some."""
    recorder = current()
    if recorder is None or not recorder.meeting.fills_in:
        return value
    if type(value) in (list, tuple) and recorder.meeting.holds_number(value):
        return record(_ARRAY, (value,), {})
    if not recorder.meeting.is_number(value):
        return value
    of_floats = is_traced(beside) and beside.dtype.kind == "f"
    return recorder.meeting.operand(value, beside.dtype if of_floats else None)


def _for_whole(value, array):
    """`value` for an array of whole numbers, in which a float has to be a number that fits."""
    recorder = current()
    if recorder is None or not recorder.meeting.fills_in or not is_traced(array):
        return value
    if array.dtype.kind not in "iu":
        return value
    if type(value) in (list, tuple):
        return type(value)([_for_whole(x, array) for x in value])
    if recorder.meeting.is_number(value) and recorder.floats.follows(value):
        return value.leave()
    return recorder.meeting.settled_number(value)


def as_index(array, key):
    """A key of an array with arrays in the place of counters: replays write where they are by then.

    They go this way while the counters are within the array; define-by-run raises where one is not.
    """
    recorder = current()
    if recorder is None or recorder.depth or recorder.trace.dynamic is not None:
        return key
    parts = key if type(key) is tuple else (key,)
    lengths = _lengths(parts, array.shape)
    parts = [_within(part, n, recorder) for part, n in zip(parts, lengths, strict=True)]
    return tuple(parts) if type(key) is tuple else parts[0]


def _within(part, length: int, recorder):
    if type(part) not in FOLLOWED or part.kind is not int or not recorder.floats.follows(part):
        return part
    if type(part.origin) is not Left:
        _ = part < length and part >= -length  # each comparison is a condition
    return recorder.leaving.read_anew(float(part.plain), part.origin).astype(np.intp)


def _lengths(parts: tuple, shape: tuple) -> Iterator[int]:
    """Of each part of a key the length of the axis that it takes."""
    taken = [_axes_of(part) for part in parts]
    axis = 0
    for part, n in zip(parts, taken, strict=True):
        yield shape[axis] if axis < len(shape) else 0
        axis += len(shape) - sum(taken) if part is Ellipsis else n


def _axes_of(part) -> int:
    if part is None or part is Ellipsis or isinstance(part, (bool, np.bool_)):
        return 0
    return part.ndim if isinstance(part, ARRAYS) and part.dtype == bool else 1


def _after(text: str, taken: str) -> str:
    return f"{text} after {taken} has taken it"


def set_item(array, key, value) -> None:
    """``array[key] = value``."""

    def perform():
        strip(array)[strip_nested(key)] = strip_nested(value)

    if _is_its_own(array, key, value):
        return  # ``x[key] += y`` has written there already
    value = _as_array(_for_whole(value, array))
    write(array, assign, (key, value), {}, "setitem", "an array was written in place", perform)


def _is_its_own(array, key, value) -> bool:
    """Whether `value` is the view that basic indexing with `key` gives."""
    if not is_traced(value) or strip(value).base is None:
        return False
    for part in key if isinstance(key, tuple) else (key,):
        if not (part is None or part is Ellipsis or isinstance(part, (int, np.integer, slice))):
            return False
    there, value = strip(array)[strip_nested(key)], strip(value)
    if type(there) is not type(value) or there.dtype != value.dtype:
        return False
    return (there.shape, there.strides, address(there)) == (
        value.shape,
        value.strides,
        address(value),
    )


def into(out, function: Callable, args: tuple, kwargs: dict, text: str) -> Any:
    """``function(*args, out=out, **kwargs)``, where `out` is one array; returns `out`.

    What the function gives without ``out`` is recorded by itself, and then written: unless that
    could be something else.
    """
    name = getattr(function, "__name__", "call")

    def perform():
        function(*strip_nested(args), out=strip(out), **strip_nested(kwargs))

    recorder = current()
    watched = recorder is not None and not recorder.depth and recorder.trace.dynamic is None
    if watched and is_traced(out) and "where" not in kwargs and holds_known((out, args, kwargs)):
        made = record(function, args, kwargs)
        plain = shown(made)
        ufunc = getattr(function, "as_numpy", function)
        elementwise = isinstance(ufunc, np.ufunc) and "dtype" not in kwargs
        if is_traced(made) and (elementwise or plain.dtype == out.dtype):
            args, kwargs = _plain_floats(args), _plain_floats(kwargs)  # they have been followed
            write(out, take_over, (made,), {}, name, text, perform)
            return out
    write(out, Into(function), args, kwargs, name, text, perform)
    return out


def at(ufunc: np.ufunc, args: tuple) -> None:
    """``ufunc.at(*args)``."""
    text = f"an array was written in place by numpy.{ufunc.__name__}.at"
    array, key, *others = args
    recorder = current()
    if recorder is not None:
        _, *others = recorder.meeting.shown_to_numpy(ufunc, (array, *others))
    args = as_index(array, key), *others

    def perform():
        ufunc.at(strip(array), *strip_nested(args))

    write(array, At(ufunc), args, {}, f"{ufunc.__name__}.at", text, perform)


def by_method(name: str) -> Callable:
    """A method that writes into its array."""

    def method(self, *args, **kwargs):
        args = tuple([_as_array(_for_whole(x, self)) for x in args])

        def perform():
            return getattr(strip(self), name)(*strip_nested(args), **strip_nested(kwargs))

        how = fill if name == "fill" else Method(name)
        text = f"an array was written in place by {name}"
        return write(self, how, args, kwargs, name, text, perform)

    method.__name__ = name
    return method


def by_function(function: Callable, args: tuple, kwargs: dict) -> Any:
    """A function of NumPy that writes into its first argument."""
    name = function.__name__
    text = f"an array was written in place by numpy.{name}"
    first = args[0] if args else None
    args = tuple([_as_array(_for_whole(x, first), first) for x in args])

    def perform():
        return function(*strip_nested(args), **strip_nested(kwargs))

    if not args:
        leave_by(text, Remedy.NEW_ARRAY, args, kwargs)
        return perform()
    return write(args[0], function, args[1:], kwargs, name, text, perform)


def replace_nans(function: Callable, x, copy=True, *args: Any, **kwargs: Any) -> Any:
    """``numpy.nan_to_num``, which may write into the array that it is given."""
    is_scalar = getattr(getattr(x, "origin", None), "is_scalar", False)
    if copy or is_scalar or not isinstance(x, ARRAYS):
        return record(function, (x, copy, *args), kwargs)
    set_item(x, Ellipsis, record(function, (x, True, *args), kwargs))
    return x if x.ndim else x[()]


def may_write_unseen(function: Callable, args: tuple, kwargs: dict) -> bool:
    """Whether a function of NumPy may write into an array that it is given to read."""
    function = getattr(function, "as_numpy", function)
    at = _OVERWRITING.get(function)
    if at is not None:
        return bool(args[at] if len(args) > at else kwargs.get("overwrite_input", False))
    return function in GIVING_VIEWS and any(_writes(x) for x in (*args, *kwargs.values()))


def record_unless_written(function: Callable, args: tuple, kwargs: dict) -> Any:
    """Record a call of a function in whose hands arrays shall be as they were."""
    given = [x for x in (*args, *kwargs.values()) if is_traced(x)]
    before = [strip(x).tobytes() for x in given]
    result = record(function, args, kwargs)
    if any(strip(x).tobytes() != old for x, old in zip(given, before, strict=True)):
        text = f"an array was written in place inside {function.__name__}"
        leave_by(text, Remedy.NEW_ARRAY, args, kwargs)
    return result


def _writes(thing) -> bool:
    """Whether a function of Python's may write into arrays that it is given."""
    code = getattr(getattr(thing, "__func__", thing), "__code__", None)
    if code is None:  # a function of NumPy's, or what holds one
        return callable(thing) and not _is_of_numpy(thing)
    if (thing.__module__ or "").partition(".")[0] == "numpy":
        return False
    return any(
        i.opname in ("STORE_SUBSCR", "STORE_SLICE")
        or (i.opname == "BINARY_OP" and i.argrepr.endswith("="))
        or i.opname.startswith("INPLACE_")
        or (i.opname in _CALLING and i.argval in _WRITING)
        for i in dis.get_instructions(code)
    )


def _is_of_numpy(thing) -> bool:
    package = (getattr(thing, "__module__", "") or "").partition(".")[0]
    return isinstance(thing, np.ufunc) or package in ("numpy", "cupy")


def _plain_floats(thing):
    """Numbers that followed ones show, in tuples, lists and dicts as well. Not a use of them."""
    kind = type(thing)
    if kind in (tuple, list):
        return kind([_plain_floats(t) for t in thing])
    if kind is dict:
        return {k: _plain_floats(t) for k, t in thing.items()}
    return plain_float(thing)


#: Which argument of theirs lets them sort what they are given.
_OVERWRITING = {
    np.median: 3, np.nanmedian: 3, np.percentile: 4, np.nanpercentile: 4, np.quantile: 4,
    np.nanquantile: 4,
}  # fmt: skip
#: These give views of an array to a function of the user's.
GIVING_VIEWS = frozenset((np.apply_along_axis, np.apply_over_axes))
_CALLING = ("LOAD_ATTR", "LOAD_METHOD")
_WRITING = frozenset(
    ("copyto", "fill", "partition", "place", "put", "putmask", "setfield", "shuffle", "sort")
)
