"""The arithmetic of an update rule of the user's: recorded from its function, emitted as ops.

The function is called with a `Symbol` for each array. What NumPy is asked to do with them are the
steps, each an op of the op table; numbers beside arrays are operands that may be others in every
step of the optimizer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sdbr.base.errors import TraceError
from sdbr.functions import integers
from sdbr.lowering.numpy_calls import UNARY
from sdbr.lowering.numpy_logic import COMPARISONS, LOGICAL
from sdbr.ops import fused
from sdbr.ops.table import BY_NAME
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder
from sdbr.program.instruction import ControlSlot

import numpy as np

#: Op of two arrays, of an array and a number, of a number and an array; None: of two arrays.
_BINARY = {
    np.add: ("add", "add_constant", "add_constant"),
    np.subtract: ("subtract", None, "rsub_constant"),
    np.multiply: ("multiply", "mul_constant", "mul_constant"),
    np.divide: ("divide", "div_constant", "rdiv_constant"),
    np.power: ("power", "pow_constant", "rpow_constant"),
    np.maximum: ("maximum", None, None),
    np.minimum: ("minimum", None, None),
    np.arctan2: ("arctan2", None, None),
    np.fmod: ("fmod", None, None),
}
#: Operators and the like that there is nothing for.
_REFUSED = (
    "floordiv", "rfloordiv", "mod", "rmod", "divmod", "rdivmod", "matmul", "rmatmul", "round",
    "len", "iter", "getitem", "int", "index", "complex", "lshift", "rshift",
)  # fmt: skip
_FILLED = {np.zeros_like: 0.0, np.ones_like: 1.0, np.full_like: None}
#: What NumPy does in the place of ``x ** number``.
_POWERS = {2: np.square, 0.5: np.sqrt, -1: np.reciprocal, 1: np.positive}
_OPERATORS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
_COMPARED = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
_OF_ONE = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}
_UNARY = {**UNARY, np.reciprocal: "reciprocal", np.fabs: "absolute"}
#: By which comparison with which number: of the array itself, or of its size.
_TESTED = {np.isfinite: ("lt", np.inf), np.isinf: ("eq", np.inf)}
#: Those of NumPy are rounded before, and leave arrays of float32 as they are.
_NUMBERS = (bool, int, float, np.float16, np.float32)


class Arithmetic(NamedTuple):
    """What a function does with arrays.

    Attributes
    ----------
    steps : tuple of (str, tuple of int)
        Op and operands: the arguments and the results of steps before, counted from 0; ``~i`` is
        the number `i`.
    results : tuple of int
        Operands that are the new contents of the arguments but the second: the results of steps
        after which nobody reads those arguments.
    """

    steps: tuple[tuple[str, tuple[int, ...]], ...]
    results: tuple[int, ...]


class Symbol:
    """An array of any shape while the arithmetic of a function is recorded."""

    __slots__ = ("_recording", "is_bool", "place")

    def __init__(self, recording: _Recording, place: int, is_bool: bool = False) -> None:
        self._recording = recording
        self.place = place
        self.is_bool = is_bool

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if method != "__call__" or kwargs:
            how = f"with {', '.join(kwargs)}" if method == "__call__" else f"by {method}"
            raise self._recording.refusal(f"numpy.{ufunc.__name__} {how}")
        return self._recording.ufunc(ufunc, inputs)

    def __array_function__(self, func, types, args, kwargs):
        recording = self._recording
        if func in _UNARY and len(args) == 1 and not kwargs:  # np.fix
            return recording.ufunc(func, args)
        if func is np.where and len(args) == 3 and not kwargs:
            return recording.where(*args)
        if func is np.clip and kwargs.keys() <= {"a_min", "a_max", "min", "max"}:
            return recording.clip(*args, **kwargs)
        if func in _FILLED and not kwargs and len(args) == 1 + (func is np.full_like):
            return recording.array((*args, _FILLED[func])[1], "numpy.full_like")
        raise recording.refusal(f"{func.__module__}.{func.__name__}")

    def __pow__(self, other):
        instead = _POWERS.get(other) if type(other) in _NUMBERS else None
        return np.power(self, other) if instead is None else instead(self)

    def __rpow__(self, other):
        return np.power(other, self)

    def __bool__(self):
        raise self._recording.refusal("a branch on an array")

    def __float__(self):
        raise self._recording.refusal("float() of an array")

    def __getattr__(self, name):
        raise self._recording.refusal(f".{name} of an array")

    def clip(self, *args, **kwargs):
        """As the method of an array."""
        return self._recording.clip(self, *args, **kwargs)

    def copy(self):
        """As the method of an array; steps make new ones anyhow."""
        return self


def _operator(ufunc, is_reflected: bool) -> Callable[[Symbol, Any], Symbol]:
    """What `Symbol` has for an operator; what is usual does not go through the table of ufuncs."""
    both, *beside = _BINARY.get(ufunc, (None, None, None))
    of_number = beside[is_reflected]

    def operator(self, other):
        recording = self._recording
        if type(other) is Symbol:
            usual = both is not None and not (self.is_bool or other.is_bool)
            if usual and other._recording is recording:
                return recording.step(both, self.place, other.place)
        elif type(other) is float and of_number is not None and not self.is_bool:
            recording.numbers.append(other)
            return recording.step(of_number, self.place, ~(len(recording.numbers) - 1))
        return recording.ufunc(ufunc, (other, self) if is_reflected else (self, other))

    return operator


def _in_place(name: str) -> Callable[..., Symbol]:
    def operator(self, *others):
        raise self._recording.refusal(f"an array that is changed in place ({name})")

    return operator


def _refusing(name: str) -> Callable[..., Symbol]:
    def operator(self, *others):
        raise self._recording.refusal(f"__{name}__ of an array")

    return operator


def _give_operators() -> None:
    for name, ufunc in _OPERATORS.items():
        setattr(Symbol, f"__{name}__", _operator(ufunc, False))
        setattr(Symbol, f"__r{name}__", _operator(ufunc, True))
        setattr(Symbol, f"__i{name}__", _in_place(f"__i{name}__"))
    for name, ufunc in _COMPARED.items():
        setattr(Symbol, f"__{name}__", _operator(ufunc, False))
    for name, ufunc in _OF_ONE.items():
        setattr(Symbol, f"__{name}__", lambda self, u=ufunc: self._recording.ufunc(u, (self,)))
    for name in ("__ipow__", "__setitem__"):
        setattr(Symbol, name, _in_place(name))
    for name in _REFUSED:
        setattr(Symbol, f"__{name}__", _refusing(name))


_give_operators()


class _Recording:
    """Steps and numbers, as they come."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.n = 0
        self.steps: list[tuple[str, tuple[int, ...]]] = []
        self.numbers: list[float] = []

    def refusal(self, what: str) -> TraceError:
        return TraceError(
            f"update rule {self.name}: {what} has no native code in a rule; write it elementwise, "
            "with operators and functions of NumPy, or as a class of chainer.UpdateRule"
        )

    def symbol(self, is_bool: bool = False) -> Symbol:
        self.n += 1
        return Symbol(self, self.n - 1, is_bool)

    def step(self, op: str, *operands: int, is_bool: bool = False) -> Symbol:
        self.steps.append((op, operands))
        return self.symbol(is_bool)

    def number(self, value, beside: str) -> int:
        if type(value) not in _NUMBERS:
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            if kind == "numpy.float64":  # beside arrays of float32 it makes others of float64
                raise self.refusal(f"{beside} with a numpy.float64, which float() makes a number,")
            raise self.refusal(f"{beside} with a {kind.removeprefix('builtins.')}")
        self.numbers.append(float(value))
        return ~(len(self.numbers) - 1)

    def clip(self, x, low=None, high=None, **kwargs) -> Symbol:
        names = {"a_min": "low", "min": "low", "a_max": "high", "max": "high"}
        bounds = {"low": low, "high": high, **{names[k]: v for k, v in kwargs.items()}}
        for ufunc, bound in ((np.maximum, bounds["low"]), (np.minimum, bounds["high"])):
            x = x if bound is None else self.ufunc(ufunc, (x, bound))
        return self.array(x, "numpy.clip")

    def array(self, thing, beside: str) -> Symbol:
        """An operand as an array: truth values as ones and zeros, of a number copies."""
        if not isinstance(thing, Symbol):
            return self.step("fill", self.number(thing, beside))
        if thing._recording is not self:
            raise self.refusal("an array of another step")
        return self.step("as_float", thing.place) if thing.is_bool else thing

    def ufunc(self, ufunc, inputs) -> Symbol:
        beside = f"numpy.{ufunc.__name__}"
        if any(isinstance(x, Symbol) and x._recording is not self for x in inputs):
            raise self.refusal("an array of another step")
        bools = [isinstance(x, Symbol) and x.is_bool for x in inputs]
        if ufunc is np.positive and not any(bools):
            return inputs[0]
        if all(bools) and (ufunc in LOGICAL or ufunc in (np.invert, np.logical_not)):
            name = LOGICAL.get(ufunc, "not")
            return self.step(name, *(x.place for x in inputs), is_bool=True)
        if all(bools[i] or not isinstance(x, Symbol) for i, x in enumerate(inputs)):
            # Of another dtype, which makes others of what it meets.
            raise self.refusal(
                f"{beside} of truth values alone (of which there are ~, &, | and numpy.where)"
            )
        if ufunc is np.isnan:
            return self.step("ne", inputs[0].place, inputs[0].place, is_bool=True)
        if ufunc in _TESTED:
            op, number = _TESTED[ufunc]
            size = self.step("absolute", inputs[0].place)
            return self.step(op, size.place, self.array(number, beside).place, is_bool=True)
        if ufunc in COMPARISONS:
            places = [self.array(x, beside).place for x in inputs]
            return self.step(COMPARISONS[ufunc], *places, is_bool=True)
        if ufunc in _UNARY:
            return self.step(_UNARY[ufunc], self.array(inputs[0], beside).place)
        if ufunc not in _BINARY:
            raise self.refusal(beside)
        x, y = inputs
        both, before, after = _BINARY[ufunc]
        if ufunc is np.subtract and not isinstance(y, Symbol):
            y, before = -float(y) if type(y) in _NUMBERS else y, "add_constant"
        if not isinstance(y, Symbol) and before is not None:
            return self.step(before, self.array(x, beside).place, self.number(y, beside))
        if not isinstance(x, Symbol) and after is not None:
            return self.step(after, self.array(y, beside).place, self.number(x, beside))
        return self.step(both, *(self.array(z, beside).place for z in inputs))

    def where(self, condition, x, y) -> Symbol:
        if not isinstance(condition, Symbol) or not condition.is_bool:
            raise self.refusal("numpy.where without a comparison of arrays")
        if not any(isinstance(z, Symbol) and not z.is_bool for z in (x, y)):
            raise self.refusal("numpy.where without an array of numbers")  # of another dtype
        places = [self.array(z, "numpy.where").place for z in (x, y)]
        return self.step("where", condition.place, *places)


def record(function: Callable, n_arrays: int, name: str) -> tuple[Arithmetic, list[float]]:
    """What a function does with arrays, and the numbers that it has beside them.

    Parameters
    ----------
    function : callable
        ``function(param, grad, *states)``, of as many arrays as `n_arrays`; it gives the new
        parameter, or a tuple of it and the new states.
    n_arrays : int
    name : str
        For errors.

    Raises
    ------
    TraceError
        If the function does what has no op, and what that is.
    """
    recording = _Recording(name)
    given = [recording.symbol() for _ in range(n_arrays)]
    found = results_of(function(*given), n_arrays - 1, name)
    places = [recording.array(x, "a result").place for x in found]
    return _finished(recording, places, n_arrays), recording.numbers


def results_of(found: Any, n: int, name: str) -> Sequence[Any]:
    """The new parameter and the new states, `n` in all, of what a function has returned."""
    results = found if isinstance(found, (tuple, list)) else (found,)
    if len(results) != n:
        raise TypeError(
            f"update rule {name}: expected {'a new param' if n == 1 else f'a tuple of {n} arrays'}"
            f"{'' if n == 1 else ' (the new param, then each state)'}, got {len(results)}"
        )
    return results


def _finished(recording: _Recording, results: list[int], n: int) -> Arithmetic:
    """With copies at the end, so that each result is made by a step of its own, which no step reads
    the argument after that it takes the place of.
    """
    at = dict(enumerate((0, *range(2, n))))
    rest = [
        k for k, r in enumerate(results) if not _is_written(recording.steps, results, r, at[k], n)
    ]
    for k in rest:
        if results[k] < n:  # an argument itself may be written before it is read
            results[k] = recording.step("copy", results[k]).place
    for k in rest:
        results[k] = recording.step("copy", results[k]).place
    return Arithmetic(tuple(recording.steps), tuple(results))


def _is_written(steps, results: list[int], result: int, at: int, n: int) -> bool:
    """Whether the step that makes a result may write it where the argument `at` lies."""
    if (
        result < n
        or results.count(result) > 1
        or at in results
        or not _is_elementwise(steps[result - n][0])
    ):
        return False
    return not any(at in operands for _, operands in steps[result - n + 1 :])


def _is_elementwise(op: str) -> bool:
    return op in BY_NAME and bool(BY_NAME[op].step)


def emit(
    b: Builder, arithmetic: Arithmetic, rows: Sequence[Row], floats: Sequence[ControlSlot]
) -> None:
    """Emit what a function does: as one op, where it has no truth values.

    Parameters
    ----------
    b : Builder
    arithmetic : Arithmetic
    rows : sequence of Row
        Of its arguments; the first, and those from the third on, are written.
    floats : sequence of ControlSlot
        Its numbers.
    """
    targets = dict(zip(arithmetic.results, (rows[0], *rows[2:]), strict=True))
    steps = _as_one(arithmetic, len(rows), floats)
    if steps is not None:
        ints, numbers = fused.encode(steps)
        b.emit("fused", rows, list(targets.values()), ints, numbers)
        return
    values = list(rows)
    for place, (op, operands) in enumerate(arithmetic.steps, len(rows)):
        xs = [values[k] for k in operands if k >= 0]
        numbers = [floats[~k] for k in operands if k < 0]
        values.append(_step(b, op, xs, numbers, rows[0], targets.get(place)))


def _as_one(
    arithmetic: Arithmetic, n: int, floats: Sequence[ControlSlot]
) -> list[fused.Step] | None:
    """The steps on registers of one op; None where one has no such step, or they are too many."""
    base = n + len(arithmetic.results)
    if base > fused.MAX_OPERANDS or not all(_is_elementwise(op) for op, _ in arithmetic.steps):
        return None
    last = {k: i for i, (_, operands) in enumerate(arithmetic.steps) for k in operands}
    register = {k: k for k in range(n)}
    register.update((place, n + i) for i, place in enumerate(arithmetic.results))
    free = list(range(base + fused.MAX_TEMPORARIES - 1, base - 1, -1))
    steps, at = [], 0
    for i, (op, operands) in enumerate(arithmetic.steps):
        ins = tuple(register[k] for k in operands if k >= 0)
        # What is read for the last time is free: a step may write over what it reads.
        free += {register[k] for k in operands if k >= n and last[k] == i and register[k] >= base}
        if n + i not in register:
            if not free:
                return None
            register[n + i] = free.pop()
        numbers = tuple(floats[~k] for k in operands if k < 0)
        steps.append(fused.Step(BY_NAME[op], ins, register[n + i], numbers, at))
        at += len(numbers)
    return steps


def _step(b: Builder, op: str, xs, numbers, like: Row, target: Row | None) -> Row:
    if op == "as_float":
        return b.cast(xs[0], like.dtype)
    if op == "where":
        return integers.where(b, *xs)
    if op in COMPARISONS.values():
        return integers.compare(b, op, *xs)
    if op == "not":
        return integers.integer(b, "xor", xs[0], b.constant(np.array(True)))
    if op in LOGICAL.values():
        return integers.integer(b, op, *xs)
    target = b.new(like.shape, like.dtype) if target is None else target
    b.emit(op, xs, [target], floats=numbers)
    return target
