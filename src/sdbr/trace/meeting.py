"""Numbers of Python that meet arrays: each replay fills them in anew.

NumPy asks of such a number what the dtypes beside it say: with float32 it counts as float32. A
ufunc gets it as an array of that dtype; every other call gets it as it is, and runs in Python.
Functions of :mod:`math` are followed as well.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

from sdbr.devices.arrays import ARRAYS
from sdbr.trace.arrays._scalars import KINDS, Left, Scalar
from sdbr.trace.arrays.provenance import TracedArray
from sdbr.trace.arrays.stripping import PURE, is_traced, shown, strip
from sdbr.trace.arrays.telling import record
from sdbr.trace.arrays.traced_float import (
    BY_VALUE,
    FOLLOWED,
    TracedFloat,
    compared,
    computed,
    plain_float,
    strip_floats,
)
from sdbr.trace.arrays.wrapping import wrap
from sdbr.trace.code.frames import user_line
from sdbr.trace.current import current
from sdbr.trace.values import ALIAS, ATTRIBUTE, CONSTANT, RESULT, Hole, TracedNode, Value

import numpy as np

_EXACT = 2**53  # whole numbers up to here are floats
#: By the bytes of the dtype: floats and whole numbers that count as it, to either side.
_LIMITS, _WHOLE_LIMITS = {2: 65000.0, 4: 3.4e38}, {2: 2**7, 4: 2**15}
_ARITHMETIC = (np.add, np.subtract, np.multiply, np.true_divide)
#: What computes with a whole number beside floats as if it were one.
_TAKES_FLOATS = frozenset((
    *_ARITHMETIC, np.maximum, np.minimum, np.fmax, np.fmin, np.power, np.less, np.less_equal,
    np.greater, np.greater_equal, np.equal, np.not_equal,
))  # fmt: skip


class Number:
    """Place number `index` of a number among the arguments of a call."""

    __slots__ = ("index",)

    def __init__(self, index: int):
        self.index = index

    def __eq__(self, other) -> bool:
        return type(other) is Number and other.index == self.index

    def __hash__(self) -> int:
        return hash(("number", self.index))


class Numbered:
    """A call that is given numbers of Python, which arrays hold: a recorded call.

    Parameters
    ----------
    call : callable
    kinds : tuple of type
        Of each number: ``float`` or ``numpy.float64``.
    """

    def __init__(self, call: Callable, kinds: tuple[type, ...]):
        self.call = call
        self.kinds = kinds
        self.__name__ = f"{getattr(call, '__name__', 'call')} of numbers"

    def __call__(self, numbers: tuple, args: tuple, kwargs: dict) -> Any:
        given = [kind(x.item()) for kind, x in zip(self.kinds, numbers, strict=True)]
        return self.call(*_filled(args, given), **_filled(kwargs, given))

    def __eq__(self, other) -> bool:
        return type(other) is Numbered and (other.call, other.kinds) == (self.call, self.kinds)

    def __hash__(self) -> int:
        return hash((self.call, self.kinds))


def _filled(thing, numbers: list):
    """`thing` with the numbers in their places."""
    kind = type(thing)
    if kind is Number:
        return numbers[thing.index]
    if kind in (tuple, list):
        return kind([_filled(t, numbers) for t in thing])
    if kind is dict:
        return {k: _filled(t, numbers) for k, t in thing.items()}
    return thing


class Meeting:
    """The part of the recorder that hands numbers over to NumPy."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.trace = recorder.trace
        self.values = recorder.values
        self.floats = recorder.floats
        self._short: dict[int, np.floating] = {}  # index of a value -> the argument that it shows

    def short_argument(self, number: np.floating, scalar: Scalar):
        """What user code gets for an argument that is a NumPy scalar of less than 64 bits."""
        read = strip(self.recorder.leaving.read_anew(float(number), scalar))
        known = self.values.find_array(read)
        call = (_narrowed(number.dtype), (Hole(0),), {})
        node = TracedNode(None, None, call, [known], [], False, [], scalar.name, user_line())
        plain = np.asarray(number)
        value = self.values.value(RESULT, plain, False, (node, 0), False)
        value.is_scalar, value.host = True, False
        self.values.know_array(plain, value)
        node.outputs.append(value)
        self.trace.nodes.append(node)
        self._short[value.index] = number
        return wrap(plain, value, self.recorder)

    def settled_number(self, thing):
        """A NumPy scalar made of such arguments alone as a plain one, which has to come again."""
        if not self._short or not is_traced(thing) or thing.ndim or thing.origin is PURE:
            return thing
        if not self.leave_numbers((thing,)):
            return thing
        plain = self._short.get(thing.origin.index)
        plain = shown(thing) if plain is None else plain
        return plain

    def leave_numbers(self, things, arrays_alone: bool = False) -> bool:
        """Whether all of the call in `things` is made of numbers and of arrays from outside.

        These have to stay what they are. With `arrays_alone` of no other numbers.
        """
        found: set[Scalar | Value] = set()
        return _made_of_numbers(things, found) and self._let_stay(found, arrays_alone)

    def leave_value(self, value: Value) -> bool:
        """Whether a value is made of arrays from outside alone, which then have to stay."""
        found: set[Scalar | Value] = set()
        return _numbers_behind(value, found) and self._let_stay(found, True)

    def _let_stay(self, found: set, arrays_alone: bool) -> bool:
        scalars = [x for x in found if not isinstance(x, Value)]
        arrays = [self.recorder.borrowed.array_of(x) for x in found if isinstance(x, Value)]
        if self.trace.dynamic is not None or not found or (arrays_alone and scalars):
            return False
        if any(x is None or self._is_changed(x) for x in arrays):
            return False
        for scalar in scalars:
            self.floats.note_leaving(scalar)
        for array in arrays:
            self.recorder.code_watch.fact(array, "numbers")
        return True

    def _is_changed(self, array) -> bool:
        """Whether the call has written to an array: what it held before nobody knows any more."""
        memory = self.recorder.memory.memory_of(array)
        return memory is not None and bool(memory.written)

    @property
    def fills_in(self) -> bool:
        """Whether numbers that meet arrays now are filled in by replays."""
        return (
            not self.recorder.depth
            and self.trace.dynamic is None
            and self.recorder.nodes.forgotten is None
        )

    def is_number(self, thing) -> bool:
        """Whether `thing` is a float of this trace, which each replay reads or computes anew."""
        return type(thing) is TracedFloat and thing.origin.token is self.floats.token

    def holds_number(self, thing) -> bool:
        """Whether there is one in lists, tuples and dicts."""
        if type(thing) in (tuple, list):
            return any(map(self.holds_number, thing))
        if type(thing) is dict:
            return any(map(self.holds_number, thing.values()))
        return self.is_number(thing)

    def array_for(self, thing):
        """A number of this trace as an array of it, without dimensions."""
        if self.floats.is_left(thing):
            return self.recorder.leaving.array_of(thing.origin)
        plain = plain_float(thing)
        return self.recorder.leaving.read_anew(
            float(plain) if type(plain) is int else plain, thing.origin
        )

    def call_with_numbers(self, ufunc, inputs: tuple):
        """Call a ufunc with numbers that are followed, and no array of the call."""
        inputs = tuple(map(self.floats.asked, inputs))
        if not any(map(self.floats.is_left, inputs)):
            numbers = [type(x) in (int, *KINDS) or type(x) in FOLLOWED for x in inputs]
            if ufunc.nout == 1 and all(numbers):
                return computed(ufunc, inputs)
        shown = self.shown_to_numpy(ufunc, inputs)
        if self.recorder.depth or not any(map(is_traced, shown)):
            return ufunc(*strip_floats(inputs))
        return record(ufunc, shown, {})

    def shown_to_numpy(self, ufunc, inputs: tuple) -> tuple:
        """Operands of a ufunc with arrays of the call in the place of numbers of it."""
        if not any(type(x) in FOLLOWED for x in inputs):
            return inputs
        arrays = [x for x in inputs if is_traced(x) or isinstance(x, (np.ndarray, np.generic))]
        dtype = np.result_type(*[x.dtype for x in arrays]) if arrays else np.dtype(float)
        if BY_VALUE and dtype.kind == "f":
            dtype = dtype if any(x.ndim for x in arrays) else np.dtype(float)
            inputs = tuple([_within(x, dtype) for x in inputs])
        of_floats = any(x.dtype.kind == "f" for x in arrays if not isinstance(x, np.generic))
        beside_floats = ufunc in _ARITHMETIC and of_floats
        inputs = tuple(
            [
                self.recorder.leaving.as_python(x)
                if beside_floats and self.floats.is_left_whole(x)
                else self.floats.asked(x)
                for x in inputs
            ]
        )
        if dtype.kind not in "biuf" or not any(type(x) in FOLLOWED for x in inputs):
            return inputs
        beside_floats = ufunc in _TAKES_FLOATS and dtype.kind == "f"
        return tuple([
            self.operand(x, dtype if dtype.kind == "f" else None)
            if self._is_shown(x, beside_floats)
            else x
            for x in inputs
        ])  # fmt: skip

    def _is_shown(self, thing, beside_floats: bool) -> bool:
        if self.floats.is_left(thing):
            return True
        whole = beside_floats and self._is_small(thing)
        return self.fills_in and (whole or self.is_number(thing))

    def operand(self, thing, dtype: np.dtype | None):
        """A number of this trace as an array: of `dtype`, beside whose floats it counts as one."""
        traced = self.array_for(thing)
        if dtype is None or dtype.itemsize >= 8 or thing.kind is np.float64:
            return traced  # of NumPy's own numbers the dtype counts
        return record(_narrowed(dtype), (traced,), {})

    def _is_small(self, thing) -> bool:
        """Whether `thing` is a whole number of this trace that is a float as well."""
        return self.floats.follows(thing) and thing.kind is int and abs(thing.plain) <= _EXACT

    def with_numbers(self, call: Callable, args: tuple, kwargs: dict) -> tuple:
        """A call, with arrays of the trace in the place of its floats."""
        if not self.fills_in:
            return call, args, kwargs
        if BY_VALUE:
            dtypes = [x.dtype for x in (*args, *kwargs.values()) if isinstance(x, np.ndarray)]
            least = min([x for x in dtypes if x.kind == "f"], default=None)
            if least is not None:
                args = tuple([_within(x, least) for x in args])
                kwargs = {name: _within(x, least) for name, x in kwargs.items()}
        found: list[TracedFloat] = []
        numbered = self._numbered(tuple(args), found), self._numbered(dict(kwargs), found)
        if not found:
            return call, args, kwargs
        kinds = tuple([x.kind for x in found])
        numbers = tuple([self.array_for(x) for x in found])
        return Numbered(call, kinds), (numbers, *numbered), {}

    def _numbered(self, thing, found: list):
        kind = type(thing)
        if self.is_number(thing):
            found.append(thing)
            return Number(len(found) - 1)
        if kind in (tuple, list):
            return kind([self._numbered(t, found) for t in thing])
        if kind is dict:
            return {k: self._numbered(t, found) for k, t in thing.items()}
        return thing


def _within(thing, dtype: np.dtype):
    """A number beside an array of `dtype`: itself where its value does not give another dtype.

    A float that the call has computed is taken for one that does not: it would be a question.
    """
    whole = type(thing) in FOLLOWED and thing.kind is int
    if (
        type(thing) not in FOLLOWED
        or dtype.itemsize not in _LIMITS
        or (type(thing.origin) is Left and not whole)
    ):
        return thing
    limit = (_WHOLE_LIMITS if whole else _LIMITS)[dtype.itemsize]
    fits = compared(operator.gt, (thing, -limit)) and compared(operator.lt, (thing, limit))
    return thing if fits else thing.leave()


def _made_of_numbers(thing, found: set) -> bool:
    """Whether every array of the call in `thing` is; the numbers go to `found`."""
    kind = type(thing)
    if is_traced(thing):
        return thing.origin is PURE or _numbers_behind(thing.origin, found)
    if kind is dict:
        return all(_made_of_numbers(x, found) for x in thing.values())
    return kind not in (tuple, list) or all(_made_of_numbers(x, found) for x in thing)


def _numbers_behind(value, found: set) -> bool:
    values, seen = [value], set()
    while values:
        value = values.pop()
        if value.kind in (CONSTANT, ATTRIBUTE):
            found.add(value)
            continue
        if value.kind == ALIAS:
            values.append(value.source)
            continue
        node = value.source[0] if value.kind == RESULT else None
        if node is None or node.function is not None or node.draws or node.effect:
            return False
        if node.call is None or not (node.scalars or node.inputs):
            return False
        found.update(scalar for _, _, scalar in node.scalars)
        seen.add(value.index)
        values += [x for x in node.inputs if x.index not in seen]
    return True


@functools.lru_cache(maxsize=8)
def _narrowed(dtype: np.dtype) -> Callable:
    def as_float(array):
        return dtype.type(array)

    return as_float


def _array_function(self, function, types, args, kwargs):
    recorder = current()
    if recorder is None or not recorder.meeting.fills_in or not recorder.meeting.is_number(self):
        return function(*strip_floats(args), **strip_floats(kwargs))
    return TracedArray.__array_function__(self, function, types, args, kwargs)


TracedFloat.__array_function__ = _array_function


# --- functions of numbers, for the time of a trace ------------------------------------------------
def watched_math(original: Callable) -> Callable:
    """A function of :mod:`math` that follows numbers."""

    def call(*args, **kwargs):
        args = tuple([listed(a) for a in args])
        if not any(type(a) in FOLLOWED for a in args):
            return original(*strip_floats(args), **strip_floats(kwargs))
        return (
            original(*strip_floats(args), **strip_floats(kwargs))
            if kwargs
            else computed(original, args)
        )

    call.__name__ = original.__name__
    return call


def listed(thing):
    """What `math.fsum` and the like go through, as a list."""
    is_some = isinstance(thing, Iterable) and not isinstance(thing, (*ARRAYS, list, tuple))
    return list(thing) if is_some else thing


def _of_plain(original: Callable) -> Callable:
    """A function that looks at the classes of numbers."""

    def call(*args, **kwargs):
        return original(*strip_floats(args), **strip_floats(kwargs))

    call.__name__ = original.__name__
    return call


def register(patches) -> None:
    """Add the patches that are in place while any call is traced."""
    patches.register(np.random, "default_rng", _of_plain)
    for name, thing in vars(math).items():
        if callable(thing) and name[:1] != "_":
            patches.register(math, name, watched_math)
