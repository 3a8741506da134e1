"""Numbers that leave their arrays: ``float(x)``, ``x.item()``, ``x.tolist()``, and what follows.

Such a number is a float of Python to the code that is traced, and a number of the trace to the
recorder: arithmetic on it is recorded like that on arrays, a comparison is a question. What cannot
be followed (its text, its place in a table of Python's) makes the trace dynamic.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable
from typing import Any

from sdbr.base.reasons import Remedy
from sdbr.trace.arrays._scalars import KINDS, Left, Scalar, whole_numbers
from sdbr.trace.arrays.provenance import TracedArray
from sdbr.trace.arrays.stripping import holds_known, is_traced, strip
from sdbr.trace.arrays.telling import record
from sdbr.trace.arrays.traced_float import (
    WHOLE,
    TracedFloat,
    as_python,
    computed,
    plain_float,
)
from sdbr.trace.arrays.traced_scalar import TracedScalar
from sdbr.trace.arrays.views import replace_everywhere
from sdbr.trace.arrays.wrapping import wrap
from sdbr.trace.code.foreign import foreign_caller
from sdbr.trace.code.frames import user_line
from sdbr.trace.current import current
from sdbr.trace.values import RESULT, TracedNode

import numpy as np

#: Numbers in an array at most of which ``tolist`` makes numbers of the call.
MOST = 64
_EXACT = 2**53  # whole numbers up to here are floats
_UFUNCS = {
    operator.add: np.add, operator.sub: np.subtract, operator.mul: np.multiply,
    operator.neg: np.negative, operator.abs: np.absolute, math.fabs: np.absolute,
}  # fmt: skip
_COMPARISONS = {
    operator.lt: np.less, operator.le: np.less_equal, operator.gt: np.greater,
    operator.ge: np.greater_equal, operator.eq: np.equal, operator.ne: np.not_equal,
    math.isnan: np.isnan, math.isinf: np.isinf, math.isfinite: np.isfinite,
}  # fmt: skip

#: Of whole numbers: what gives one, and what takes them as floats.
_OF_WHOLE = {
    operator.add: np.add, operator.sub: np.subtract, operator.mul: np.multiply,
    operator.neg: np.negative, operator.abs: np.absolute,
}  # fmt: skip
_OF_FLOATS = frozenset({operator.truediv, math.exp, math.sqrt, math.log})
#: What computes with a whole number beside a float as if it were one.
_TAKES_FLOATS = frozenset(
    {operator.add, operator.sub, operator.mul, operator.truediv, *_COMPARISONS}
)
_WHOLE = {math.floor: np.floor, math.ceil: np.ceil, math.trunc: np.trunc}
# Those of the module are others while a call is traced.
_EXP, _SQRT = math.exp, math.sqrt
_OF_POSITIVE = {_SQRT: np.sqrt, math.log: np.log}


def as_float(array):
    """An array of one number as a float of Python, with NumPy's class for the recorder."""
    return np.float64(float(array))


def as_whole(array):
    """The same as an int."""
    return np.int64(int(array))


def _takes_floats(function: Callable, numbers: tuple) -> bool:
    """Whether a function takes whole numbers as floats; `math.ldexp` does not."""
    try:
        function(*map(float, numbers))
    except TypeError:
        return False
    except Exception:  # of the values, as with whole numbers
        return True
    return True


@functools.lru_cache(maxsize=256)
def _in_python(function: Callable, whole: tuple) -> Callable:
    """A function of Python's numbers as one of arrays; the same for the same function.

    `whole` has those of its arguments that are whole numbers: ``(position, number)`` of each.
    """
    places = dict(whole)

    def call(*numbers):
        floats = [x.item() if hasattr(x, "item") else x for x in numbers]
        return np.float64(function(*[places.get(i, x) for i, x in enumerate(floats)]))

    call.__name__ = f"python {function.__name__}"
    return call


class Leaving:
    """The part of the recorder that follows the numbers of the call which are floats of Python."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.trace = recorder.trace
        self.values = recorder.values
        self.floats = recorder.floats
        self._read: dict[Scalar, tuple] = {}  # floats of others -> their array, its Value

    def leave_all(self) -> None:
        """The values of all numbers of the call may be taken where they cannot be followed."""
        held = [x.origin for x in self.floats.followed_floats if type(x) is TracedFloat]
        for scalar in (*self.floats.scalars.values(), *held):
            self.floats.note_leaving(scalar)

    def leave_as_float(self, thing, text: str) -> TracedFloat | None:
        """The one number in `thing` as a float; None where it cannot be followed."""
        if not self._may_leave(thing, "?bBhHiIlLqQefd", sys._getframe(2)):
            return None
        thing = thing.reshape(()) if thing.ndim else thing
        return self._follow_number(record(as_float, (thing,), {}), float, text)

    def leave_as_whole(self, thing, text: str):
        """The one whole number in `thing` as an int; None where it cannot be followed."""
        if not self._may_leave(thing, "bBhHiIlq", sys._getframe(2)):
            return None
        thing = thing.reshape(()) if thing.ndim else thing
        return self._follow_number(record(as_whole, (thing,), {}), int, text)

    def _may_leave(self, thing, dtypes: str, frame) -> bool:
        return (
            self.trace.dynamic is None
            and self.recorder.nodes.forgotten is None
            and strip(thing).dtype.char in dtypes
            and holds_known(thing)
            and foreign_caller(frame) is None
        )

    def _follow_number(self, traced, kind: type, text: str, parts: tuple = ()):
        """A number that stands for `traced`, which NumPy has computed, of the numbers `parts`."""
        if not is_traced(traced):
            return kind(traced)  # the trace is dynamic by now
        if kind in (float, int):
            traced.origin.number = kind
        left = Left(traced.plain, traced.origin, text, self.floats.token, kind)
        left.whole = left.whole or whole_numbers(parts)
        return WHOLE.get(kind, TracedFloat)(kind(strip(traced)), left)

    def array_of(self, number: Left):
        """A number of the call as an array of it."""
        return wrap(number.plain, number.value, self.recorder)

    def as_python(self, number: TracedFloat):
        """``float(number)`` of a number that is followed."""
        if number.kind is float:
            return number
        if type(number.origin) is Left:
            traced = record(as_float, (self.array_of(number.origin),), {})
            return self._follow_number(traced, float, number.origin.text, (number.origin,))
        return as_python(number)

    def compute(self, function: Callable, things: tuple, parts: tuple) -> Any:
        """``function(*things)`` of which at least one is a number of the call."""
        if any(map(self.floats.is_left_whole, things)):
            return self._compute_whole(function, things, parts)
        text = next(part.text for part in parts if type(part) is Left)
        try:
            result = function(*map(plain_float, things))
        except Exception:
            self.recorder.mark_dynamic(
                f"an error of {function.__name__} was raised during the call", Remedy.CATCH_OUTSIDE
            )
            raise
        operands = self._operands(function, things, parts)
        if operands is not None:
            if type(result) in KINDS:
                whole = tuple([(i, x) for i, x in enumerate(things) if type(x) is int])
                traced = self._computed(function, operands, whole, result)
                return self._follow_number(traced, type(result), text, parts)
            if function in _WHOLE and type(result) is int:
                return self.round_off(things[0], _WHOLE[function], result)
            if type(result) is bool and function in _COMPARISONS:
                return self.compare(function, things, parts)
        self.recorder.mark_dynamic(text, Remedy.STAY_ARRAYS)
        return result

    def _compute_whole(self, function: Callable, things: tuple, parts: tuple) -> Any:
        """The same where one is a whole number: a number, or else a question."""
        plain = tuple(map(plain_float, things))
        whole = all(type(x) is int for x in plain)
        if function in _OF_FLOATS or (not whole and _takes_floats(function, plain)):
            return computed(
                function,
                tuple([self.as_python(x) if self.floats.is_left_whole(x) else x for x in things]),
            )
        ufunc = _OF_WHOLE.get(function)
        if ufunc is None or max(map(abs, (*plain, function(*plain)))) > _EXACT:
            return computed(function, tuple(map(self.floats.asked, things)))
        operands = [
            self.array_of(part) if type(part) is Left
            else record(as_whole, (self.read_anew(float(x), part),), {})
            if isinstance(part, Scalar)
            else x
            for x, part in zip(plain, parts, strict=True)
        ]  # fmt: skip
        text = next(part.text for part in parts if type(part) is Left)
        return self._follow_number(record(ufunc, tuple(operands), {}), int, text)

    def compare(self, function: Callable, things: tuple, parts: tuple) -> bool:
        """Whether ``function(*things)``: a question of the call."""
        text = next(part.text for part in parts if type(part) is Left)
        result = bool(function(*map(plain_float, things)))
        operands = self._operands(function, things, parts)
        if operands is None or not (function is operator.truth or function in _COMPARISONS):
            self.recorder.mark_dynamic(text, Remedy.STAY_ARRAYS)
        elif self.trace.dynamic is None:
            traced = operands[0]
            if function is not operator.truth:
                traced = record(_COMPARISONS[function], operands, {})
            if is_traced(traced):
                self.recorder.questions.ask(traced, bool, result, text)
        return result

    def read_anew(self, number: float, scalar: Scalar):
        """A float that each call reads anew, as an array of the call."""
        if self.trace.dynamic is not None:
            return number
        known = self._read.get(scalar)
        if known is None:
            call = (type(number), (number,), {})
            node = TracedNode(None, None, call, [], [], False, [], scalar.name, user_line())
            node.scalars, node.link = [("", False, scalar)], self.recorder.link
            plain = np.asarray(np.float64(number))
            value = self.values.value(RESULT, plain, False, (node, 0), False)
            value.is_scalar, value.host = True, False
            self.values.know_array(plain, value)
            node.outputs.append(value)
            self.trace.nodes.append(node)
            known = self._read[scalar] = plain, value
        return wrap(*known, self.recorder)

    def round_off(self, number: TracedFloat, ufunc, answer: int) -> int:
        """A whole number that is made of a number of the call: a question."""
        traced = self.array_of(number.origin)
        if ufunc is not None and self.trace.dynamic is None:
            traced = record(ufunc, (traced,), {})
        if is_traced(traced) and abs(answer) < _EXACT:
            self.recorder.questions.ask(traced, int, answer, number.origin.text)
        else:
            number.origin.must_stay()
        return answer

    def _operands(self, function: Callable, things: tuple, parts: tuple) -> tuple | None:
        """Numbers as NumPy takes them; None where one is none that it computes with as Python."""
        found = []
        for thing, part in zip(things, parts, strict=True):
            if type(part) is Left:
                found.append(self.array_of(part))
                continue
            if isinstance(part, Scalar) and part.kind is int and function not in _TAKES_FLOATS:
                part.must_stay()
            elif isinstance(part, Scalar):
                plain = plain_float(thing)
                found.append(self.read_anew(float(plain) if part.kind is int else plain, part))
                continue
            thing = plain_float(thing)
            if isinstance(thing, int) and abs(thing) > _EXACT:
                return None
            found.append(float(thing) if type(thing) is not np.float64 else thing)
        return tuple(found)

    def _computed(self, function: Callable, operands: tuple, whole: tuple, result):
        """The call of NumPy's that computes what Python computes, and raises where it raises."""
        if self.trace.dynamic is not None:
            return result
        ufunc, conditions = _UFUNCS.get(function), []
        if ufunc is None:
            ufunc, conditions = self._where_it_holds(function, operands, result)
        if ufunc is None:
            return record(_in_python(function, whole), operands, {})
        traced = record(ufunc, operands[:1] if ufunc.nin == 1 else operands, {})
        for test, thing, bound in conditions:
            asked = record(test, (traced if thing is None else thing, *bound), {})
            if is_traced(asked):
                self.recorder.questions.ask(
                    asked, bool, True, "a value decides whether Python raises an error"
                )
        return traced

    def _where_it_holds(self, function: Callable, operands: tuple, result) -> tuple:
        """A ufunc that does what `function` does, and where: elsewhere Python raises an error.

        Returns
        -------
        ufunc or None
        list of (ufunc, operand or None, tuple)
            What has to be true of an operand, or of the result.
        """
        no_more = self.recorder.questions.why_closed() is not None
        first, *rest = operands
        finite = [] if not math.isfinite(result) or no_more else [(np.isfinite, None, ())]
        if function is operator.truediv:
            if not is_traced(rest[0]):
                return np.true_divide, []
            return (None, []) if no_more else (np.true_divide, [(np.not_equal, rest[0], (0.0,))])
        if function is operator.pow and not is_traced(rest[0]) and rest[0] == 2.0 and finite:
            return np.square, finite
        if function is _EXP and finite:
            return np.exp, finite
        if function is operator.pow and not is_traced(rest[0]) and rest[0] == 0.5:
            function = _SQRT
        above = is_traced(first) and strip(first) > 0 and not no_more
        if function in _OF_POSITIVE and (len(operands) == 1 or function is _SQRT) and above:
            return _OF_POSITIVE[function], [(np.greater, first, (0.0,))]
        return None, []

    def settle_floats(self) -> None:
        """After the call: who still holds a number that was followed would have it no more."""
        floats, self.floats.followed_floats = self.floats.followed_floats, []
        made = [object(), *floats]
        usual = _references(made, 0)
        held = [i for i in range(1, len(made)) if _references(made, i) - usual > 1]
        del floats
        if held:
            held = [made[i] for i in held]
            del made
            self._take_back(held)

    def _take_back(self, held: list) -> None:
        for number in held:
            if self.floats.is_left(number):
                self.recorder.mark_dynamic(
                    "a number of the call is kept where it outlives the call",
                    Remedy.RETURN_IT,
                    line=number.origin.value.source[0].line,
                )
        replace_everywhere({id(x): (x, plain_float(x)) for x in held})


def _references(things: list, i: int) -> int:
    return sys.getrefcount(things[i])


def item_of(asking: Callable) -> Callable:
    """The method ``item`` of a class of traced arrays: a number that is followed."""

    def item(self, *args):
        recorder = current()
        kind = strip(self).dtype.kind
        if recorder is not None and not recorder.depth and kind in "fiu":
            thing = _element(self, args)
            if thing is not None:
                leave = (
                    recorder.leaving.leave_as_float
                    if kind == "f"
                    else recorder.leaving.leave_as_whole
                )
                number = leave(thing, "a value left NumPy through item()")
                if number is not None:
                    return number
        return asking(self, *args)

    return item


def _element(thing, args: tuple):
    """The element that ``thing.item(*args)`` gives, as an array; None for other arguments."""
    if not args:
        return thing if strip(thing).size == 1 else None
    if len(args) == 1 and type(args[0]) is tuple:
        (args,) = args
    elif len(args) == 1 and type(args[0]) is int and strip(thing).ndim:
        return thing.ravel()[args[0]]
    if len(args) == strip(thing).ndim and all(type(i) is int for i in args):
        return thing[args]
    return None


def list_of(leaving: Callable) -> Callable:
    """The method ``tolist``: such numbers."""

    def tolist(self):
        recorder, array = current(), strip(self)
        if recorder is None or recorder.depth or array.size > MOST or array.dtype.kind != "f":
            return leaving(self)
        if array.ndim == 0:
            return self.item()
        return [part.tolist() for part in self]

    return tolist


for _cls in (TracedArray, TracedScalar):
    _cls.item = item_of(_cls.item)
    _cls.tolist = list_of(_cls.tolist)


@functools.lru_cache(maxsize=64)
def _rounding(digits: int) -> Callable:
    return functools.wraps(round)(lambda x: round(x, digits))


def _whole(name: str, ufunc) -> Callable:
    leaving = getattr(TracedFloat, name)

    def method(self, *args):
        recorder = current()
        if recorder is None or recorder.depth or not recorder.floats.is_left(self):
            return leaving(self, *args)
        args = tuple([x if x is None else operator.index(x) for x in args])  # of the call as well
        if args and type(args[0]) is int:
            return computed(_rounding(args[0]), (self,))
        return recorder.leaving.round_off(self, ufunc, getattr(plain_float(self), name)())

    method.__name__ = name
    return method


for _name, _ufunc in (
    ("__int__", None), ("__trunc__", None), ("__round__", np.rint), ("__floor__", np.floor),
    ("__ceil__", np.ceil),
):  # fmt: skip
    setattr(TracedFloat, _name, _whole(_name, _ufunc))
