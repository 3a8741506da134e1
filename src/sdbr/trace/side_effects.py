"""Code that must run in every iteration: what the recorder keeps of a ``static_code`` call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sdbr.errors import NotStaticError
from sdbr.trace.attributes import INTERNAL
from sdbr.trace.provenance import PURE, TracedArray, strip, user_line, wrap
from sdbr.trace.values import CONSTANT, RESULT, Hole, TracedNode, Value

import chainer
import numpy as np

_MISSING = object()


class Input(Hole):
    """A known array in the arguments; `is_variable` when the code gets it as a Variable."""

    __slots__ = ("is_variable",)

    def __init__(self, index: int, is_variable: bool):
        super().__init__(index)
        self.is_variable = is_variable


class Made(Hole):
    """An array of ``outputs=[...]`` that the traced call made: output `index` of the node.

    It starts as `start`: contents from the trace, or a copy of a known array.
    """

    __slots__ = ("start",)

    def __init__(self, index: int, start: np.ndarray | Input):
        super().__init__(index)
        self.start = start


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


class _Arguments:
    """The arguments of one traced call, with holes where arrays of the trace go."""

    def __init__(self, recorder, args: tuple, kwargs: dict):
        self.recorder = recorder
        self.inputs: list = []
        self.made: list = []  # arrays that the call made and the code writes
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

    def _hole(self, value, is_variable=False) -> Input:
        self.inputs.append(_behind(value))
        return Input(len(self.inputs) - 1, is_variable)

    def _argument(self, thing):
        """A thing outside ``inputs`` and ``outputs``: an array of the trace, or frozen as it is."""
        if isinstance(thing, chainer.Variable):
            return (
                self._hole(self.recorder.of_variable(thing), True)
                if thing.array is not None
                else thing
            )
        if type(thing) is TracedArray:
            return self._hole(self.recorder.of_array(thing))
        if isinstance(thing, np.ndarray):
            value = self.recorder.find_array(thing)
            return thing if value is None else self._hole(value)
        return thing

    def _input(self, thing):
        if isinstance(thing, chainer.Variable):
            return self._argument(thing)
        return self._hole(self.recorder.of_array(thing))

    def _output(self, array):
        value, is_copy = _known(self.recorder, array)
        if value is None or value.kind == CONSTANT or is_copy:
            start = self._hole(value) if is_copy else strip(array).copy()
            self.made.append(array)
            return Made(len(self.made) - 1, start)
        if (
            value.kind == RESULT
            and value.source[0].function is None
            and strip(array).base is not None
        ):
            self.recorder.mark_dynamic("static_code writes into a view of another array")
        if value.kind != RESULT and not strip(array).flags.c_contiguous:
            self.recorder.mark_dynamic("static_code writes into an array that is not C-contiguous")
        return self._hole(value)


def _known(recorder, array) -> tuple[Value | None, bool]:
    """The value that `array` shows, None for one that the call made; and whether it is a copy."""
    if type(array) is not TracedArray:
        return _behind(recorder.find_array(array)), False
    if array.origin is PURE:
        return None, False
    value = _behind(recorder.of_array(array))
    return value, _behind(recorder.find_array(strip(array))) is not value


def _behind(value: Value | None) -> Value | None:
    while value is not None and isinstance(value.source, Value):  # another name of one array
        value = value.source
    return value


def _check(name: str, arrays) -> None:
    if not isinstance(arrays, (list, tuple)):
        raise TypeError(f"{name}: expected a list of arrays, got {type(arrays).__name__}")
    for i, array in enumerate(arrays):
        if isinstance(array, np.ndarray) or (
            name == "inputs" and isinstance(array, chainer.Variable)
        ):
            continue
        raise TypeError(f"{name}[{i}]: expected an array, got {type(array).__name__}")


def record_static_code(recorder, function: Callable, args: tuple, kwargs: dict, label: str) -> Any:
    """Call `function` and record the call as one node that always runs.

    Parameters
    ----------
    recorder : Recorder
        Of this thread, outside any function node.
    function : callable
    args, kwargs :
        As the user gave them.
    label : str

    Returns
    -------
    object
        What the function returned, arrays as traced arrays.
    """
    line = user_line()
    found = _Arguments(recorder, args, kwargs)
    plain_args = rebuilt(args, strip)
    plain_kwargs = rebuilt(kwargs, strip)
    before = Attributes(recorder)
    containers = _containers((args, kwargs))
    recorder.pending_writes = before.pending
    recorder.depth += 1
    try:
        result = function(*plain_args, **plain_kwargs)
    finally:
        recorder.depth -= 1
        recorder.pending_writes = set()
    before.forgive_writes()
    recorder.effect_containers += [c for c, old in containers if not _same(_contents(c), old)]
    parts = (
        [] if result is None else list(result) if isinstance(result, (tuple, list)) else [result]
    )
    call = (function, found.args, found.kwargs)
    node = TracedNode(None, None, call, found.inputs, [], False, [], label, line, effect=True)
    for array in found.made:
        _add_output(recorder, node, array)
    recorder.trace.nodes.append(node)
    if recorder.kept is not None:
        arrays = [strip(array) for array in found.made] + [p for p in parts if _is_array(p)]
        recorder.kept.append([np.array(array) for array in arrays])
    if not all(map(_is_array, parts)):
        recorder.mark_dynamic(
            f"{label} returned something else than None, an array or a tuple of arrays"
        )
        return result
    if result is None:
        return None
    wrapped = [wrap(a, _add_output(recorder, node, a)) for a in map(np.asarray, parts)]
    return type(result)(wrapped) if isinstance(result, (tuple, list)) else wrapped[0]


def _is_array(thing) -> bool:
    return isinstance(thing, (np.ndarray, np.generic))


def _add_output(recorder, node: TracedNode, array: np.ndarray):
    value = recorder.value(RESULT, array, False, (node, len(node.outputs)), False)
    recorder.know_array(array, value)
    if type(array) is TracedArray:
        array.origin = value
    node.outputs.append(value)
    return value


class Attributes:
    """The attributes of the links seen so far, before a ``static_code`` call.

    Attributes
    ----------
    pending : set of (int, str)
        Those that the traced call itself has written by now.
    """

    def __init__(self, recorder):
        self.recorder = recorder
        self.before = {key: dict(link.__dict__) for key, (link, _) in recorder._links.items()}
        self.contents = {key: _contents(thing) for key, (thing, _) in recorder._containers.items()}
        self.pending = {
            (key, name)
            for key, (link, seen) in recorder._links.items()
            for name, thing in list(link.__dict__.items())
            if thing is not seen.get(name, _MISSING) and name not in INTERNAL
        }

    def forgive_writes(self) -> None:
        """What the code wrote is its own affair: it writes it in every replay, too."""
        recorder = self.recorder
        for key, old in self.before.items():
            link, seen = recorder._links[key]
            for name in old.keys() | link.__dict__.keys():
                thing = link.__dict__.get(name, _MISSING)
                if thing is old.get(name, _MISSING) or name in INTERNAL:
                    continue
                recorder.effect_writes.add((key, name))
                if thing is _MISSING:
                    seen.pop(name, None)
                else:
                    seen[name] = thing
        for key, old in self.contents.items():
            thing, recorded = recorder._containers[key]
            if _same(old, recorded) and not _same(_contents(thing), recorded):
                recorder._containers[key] = (thing, _contents(thing))


def _contents(thing) -> list:
    return list(thing.keys()) + list(thing.values()) if isinstance(thing, dict) else list(thing)


def _containers(thing) -> list[tuple]:
    """The lists and dicts inside `thing`, each with its contents."""
    if not isinstance(thing, (list, tuple, dict)):
        return []
    inside = [
        c for t in (thing.values() if isinstance(thing, dict) else thing) for c in _containers(t)
    ]
    return inside if isinstance(thing, tuple) else [(thing, _contents(thing)), *inside]


def _same(a: list, b: list) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


class StaticCode:
    """A recorded ``static_code`` call as the object of a Python op.

    Parameters
    ----------
    node : TracedNode
    """

    def __init__(self, node: TracedNode):
        self.call, self.args, self.kwargs = node.call
        self.label = node.label
        # Arrays of the program are handed over as copies, which the code may keep; what is the
        # user's own (arguments, parameters, attributes) is handed over itself.
        self.copied = [value.kind in (RESULT, CONSTANT) for value in node.inputs]
        outputs = self.kwargs.get("outputs") or ()
        self.written = [hole.index for hole in outputs if type(hole) is Input]
        self.n_made = sum(type(hole) is Made for hole in outputs)

    def __call__(self, memory, ins, outs) -> None:
        given = [x.copy() if copied else x for x, copied in zip(ins, self.copied, strict=True)]
        made: dict[int, np.ndarray] = {}

        def filled(thing):
            kind = type(thing)
            if kind is Input:
                array = given[thing.index]
                return chainer.Variable(array) if thing.is_variable else array
            if kind is Made:
                start = thing.start
                start = given[start.index] if type(start) is Input else start
                return made.setdefault(thing.index, start.copy())
            return thing

        result = self.call(*rebuilt(self.args, filled), **rebuilt(self.kwargs, filled))
        for i in self.written:
            if self.copied[i]:
                ins[i][...] = given[i]
        for i, array in made.items():
            outs[i][...] = array
        parts = () if result is None else result if isinstance(result, (tuple, list)) else (result,)
        wanted = outs[self.n_made :]
        if len(parts) != len(wanted):
            raise NotStaticError(
                f"{self.label} returned {len(wanted)} arrays while tracing and {len(parts)} now"
            )
        for i, (part, out) in enumerate(zip(parts, wanted, strict=True)):
            array = np.asarray(part)
            if array.shape != out.shape or array.dtype != out.dtype:
                raise NotStaticError(
                    f"array {i} that {self.label} returned was {out.dtype.name}{list(out.shape)} "
                    f"while tracing and is {array.dtype.name}{list(array.shape)} now"
                )
            out[...] = array
