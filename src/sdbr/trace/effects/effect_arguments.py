"""The arguments of a recorded ``static_code`` call, with holes where arrays of the trace go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sdbr.base.reasons import Remedy
from sdbr.devices.arrays import ARRAYS
from sdbr.trace.arrays._scalars import Scalar
from sdbr.trace.arrays.stripping import PURE, is_traced, strip, strip_nested
from sdbr.trace.arrays.traced_float import TracedFloat, plain_float
from sdbr.trace.values import CONSTANT, RESULT, Hole, Value

import chainer
import numpy as np


class Input(Hole):
    """A known array in the arguments.

    Attributes
    ----------
    is_variable : bool
        Whether the code gets it as a Variable.
    written : bool
        Whether the code writes into it, and those that read it afterwards shall see that.
    """

    __slots__ = ("is_variable", "written")

    def __init__(self, index: int, is_variable: bool):
        super().__init__(index)
        self.is_variable = is_variable
        self.written = False


class Made(Hole):
    """An array of ``outputs=[...]`` that the traced call made: output `index` of the node.

    It starts as `start`: contents from the trace, or a copy of a known array.
    """

    __slots__ = ("start",)

    def __init__(self, index: int, start: np.ndarray | Input):
        super().__init__(index)
        self.start = start


class Number(Hole):
    """A float in the arguments that each call reads or computes anew.

    Attributes
    ----------
    scalar : Scalar
    value : float
        In the traced call.
    """

    __slots__ = ("scalar", "value")

    def __init__(self, index: int, scalar: Scalar, value: float):
        super().__init__(index)
        self.scalar = scalar
        self.value = value


def plain(thing: Any) -> Any:
    """What define-by-run has in the place of a traced array or float."""
    return plain_float(strip(thing))


def rebuilt(thing: Any, change: Callable) -> Any:
    """`thing` with `change` applied inside lists, tuples and dicts.

    A container in which nothing changes stays the very object: the code may write to it.
    """
    kind = type(thing)
    if kind in (list, tuple):
        items = [rebuilt(t, change) for t in thing]
        return thing if all(a is b for a, b in zip(items, thing, strict=True)) else kind(items)
    if kind is dict:
        items = {k: rebuilt(v, change) for k, v in thing.items()}
        return thing if all(items[k] is thing[k] for k in thing) else items
    return change(thing)


class EffectArguments:
    """The arguments of one traced call, with holes where arrays of the trace go."""

    def __init__(self, recorder, args: tuple, kwargs: dict):
        self.recorder = recorder
        self.inputs: list = []
        self.numbers: list[Number] = []
        self.made: list = []  # arrays that the call made and the code writes
        self._read: list = []  # (array, its bytes, Input): not for writing, as far as we are told
        kwargs = dict(kwargs)
        given = {
            name: kwargs.pop(name) for name in ("inputs", "outputs") if kwargs.get(name) is not None
        }
        for name, arrays in given.items():
            _check(name, arrays)
        self.args = rebuilt(args, self._argument)
        self.kwargs = rebuilt(kwargs, self._argument)
        if "inputs" in given:
            self.kwargs["inputs"] = type(given["inputs"])([self._input(x) for x in given["inputs"]])
        if "outputs" in given:
            self.kwargs["outputs"] = type(given["outputs"])(
                [self._output(x) for x in given["outputs"]]
            )

    def _hole(self, value, array=None, is_variable=False) -> Input:
        self.inputs.append(_behind(value))
        hole = Input(len(self.inputs) - 1, is_variable)
        if array is not None:
            self._read.append((array, array.tobytes(), hole))
        return hole

    def note_writes(self) -> None:
        """Arrays outside ``outputs`` that the code has written into all the same."""
        for array, before, hole in self._read:
            if array.tobytes() == before:
                continue
            value = self.inputs[hole.index]
            if value.kind == CONSTANT:
                self.recorder.mark_dynamic(
                    "static_code writes into an array that is not among its outputs",
                    Remedy.HAND_OVER_WHOLE,
                )
            else:
                self._writable(value, array)
                hole.written = True

    def _argument(self, thing):
        """A thing outside ``inputs`` and ``outputs``: an array of the trace, or frozen as it is."""
        if isinstance(thing, chainer.Variable):
            array = thing._data[0]
            value = None if array is None else self.recorder.values.of_variable(thing)
            return thing if value is None else self._hole(value, array, True)
        if is_traced(thing):
            return self._hole(self.recorder.values.of_array(thing), strip(thing))
        if isinstance(thing, ARRAYS):
            value = self.recorder.values.find_array(thing)
            return thing if value is None else self._hole(value, thing)
        if self.recorder.floats.is_left(thing):
            return thing.leave()
        if type(thing) is TracedFloat and thing.origin.token is self.recorder.floats.token:
            number = Number(len(self.numbers), thing.origin, plain_float(thing))
            self.numbers.append(number)
            return number
        return strip_nested(thing)

    def _input(self, thing):
        if isinstance(thing, chainer.Variable):
            return self._argument(thing)
        return self._hole(self.recorder.values.of_array(thing), strip(thing))

    def _output(self, array):
        value, is_copy = _known(self.recorder, array)
        if value is None or value.kind == CONSTANT or is_copy:
            start = self._hole(value) if is_copy else strip(array).copy()
            self.made.append(array)
            return Made(len(self.made) - 1, start)
        self._writable(value, strip(array))
        hole = self._hole(value)
        hole.written = True
        return hole

    def _writable(self, value: Value, array: np.ndarray) -> None:
        if value.kind == RESULT and value.source[0].function is None and array.base is not None:
            self.recorder.mark_dynamic(
                "static_code writes into a view of another array", Remedy.HAND_OVER_WHOLE
            )
        if value.kind != RESULT and not array.flags.c_contiguous:
            self.recorder.mark_dynamic(
                "static_code writes into an array that is not C-contiguous", Remedy.HAND_OVER_WHOLE
            )


def _known(recorder, array) -> tuple[Value | None, bool]:
    """The value that `array` shows, None for one that the call made; and whether it is a copy."""
    if not is_traced(array):
        return _behind(recorder.values.find_array(array)), False
    if array.origin is PURE:
        return None, False
    value = _behind(recorder.values.of_array(array))
    return value, _behind(recorder.values.find_array(strip(array))) is not value


def _behind(value: Value | None) -> Value | None:
    while value is not None and isinstance(value.source, Value):  # another name of one array
        value = value.source
    return value


def _check(name: str, arrays) -> None:
    if not isinstance(arrays, (list, tuple)):
        raise TypeError(f"{name}: expected a list of arrays, got {type(arrays).__name__}")
    for i, array in enumerate(arrays):
        if isinstance(array, ARRAYS) or (name == "inputs" and isinstance(array, chainer.Variable)):
            continue
        raise TypeError(f"{name}[{i}]: expected an array, got {type(array).__name__}")
