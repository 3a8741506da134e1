"""Code that must run in every iteration: what the recorder keeps of a ``static_code`` call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from sdbr.base.errors import NotStaticError
from sdbr.base.reasons import Remedy
from sdbr.devices.arrays import ARRAYS, Array
from sdbr.trace.arrays.stripping import is_traced
from sdbr.trace.arrays.wrapping import wrap
from sdbr.trace.code.frames import user_line
from sdbr.trace.effects.attributes import INTERNAL
from sdbr.trace.effects.effect_arguments import EffectArguments, Input, Made, Number, plain, rebuilt
from sdbr.trace.effects.reports import Overheard
from sdbr.trace.effects.sides import EXITS, run_code
from sdbr.trace.nodes import config_changes, configured
from sdbr.trace.values import CONSTANT, RESULT, TracedNode, Value
from sdbr.trace.watch.watching import beside

import chainer
import numpy as np

_MISSING = object()
#: Where an instance keeps what its ``static_code`` calls made, when second derivatives need it.
EFFECTS = "effects"
_NOTHING = contextlib.nullcontext()
_SHORT = 1 << 14


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
    found = EffectArguments(recorder, args, kwargs)
    recorder.memory.note_taken((args, kwargs), label)
    recorder.lasting.check_given((args, kwargs), label)
    result = _run(recorder, function, args, kwargs, label)
    found.note_writes()
    parts = (
        [] if result is None else list(result) if isinstance(result, (tuple, list)) else [result]
    )
    call = (function, found.args, found.kwargs)
    node = TracedNode(None, None, call, found.inputs, [], False, [], label, line, effect=True)
    node.config = _config_of(recorder)
    node.caught = recorder.nodes.caught()
    node.scalars = [(str(n.index), False, n.scalar) for n in found.numbers]
    for array in found.made:
        _add_output(recorder, node, array)
    node.link = recorder.link
    recorder.trace.nodes.append(node)
    if not all(map(_is_array, parts)):
        recorder.mark_dynamic(
            f"{label} returned something else than None, an array or a tuple of arrays",
            Remedy.USE_FUNCTIONS,
        )
        return result
    if result is None:
        return None
    wrapped = []
    for part in parts:
        array = part if type(part) is Array else np.asarray(part)
        value = _add_output(recorder, node, array)
        value.is_scalar = isinstance(part, np.generic)
        wrapped.append(wrap(array, value))
    return type(result)(wrapped) if isinstance(result, (tuple, list)) else wrapped[0]


def _run(recorder, function: Callable, args: tuple, kwargs: dict, label: str) -> Any:
    """Call the code with plain arrays; what it writes is its own affair, in every replay, too."""
    plain_args = rebuilt(args, plain)
    plain_kwargs = rebuilt(kwargs, plain)
    theirs = {id(x) for x in (*args, *kwargs.values())}
    given = [x for x in (*plain_args, *plain_kwargs.values()) if id(x) not in theirs]
    before = Attributes(recorder)
    recorder.attributes.pending_writes = before.pending
    recorder.depth += 1
    try:
        with (
            Overheard(recorder),
            recorder.memory.unfilled((args, kwargs)),
            beside(recorder.code_watch, given=given),
        ):
            result = function(*plain_args, **plain_kwargs)
    except Exception:
        recorder.mark_dynamic(
            f"an error of {label} was raised during the call", Remedy.CATCH_OUTSIDE
        )
        raise
    finally:
        recorder.depth -= 1
        recorder.attributes.pending_writes = set()
    before.forgive_writes()
    return result


def _is_array(thing) -> bool:
    return isinstance(thing, (*ARRAYS, np.generic))


def _add_output(recorder, node: TracedNode, array: np.ndarray):
    value = recorder.values.value(RESULT, array, False, (node, len(node.outputs)), False)
    recorder.values.know_array(array, value)
    if is_traced(array):
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
        self.before = {
            key: dict(link.__dict__) for key, (link, _) in recorder.attributes.links.items()
        }
        self.contents = {
            key: _contents(thing) for key, (thing, _) in recorder.attributes.containers.items()
        }
        self.pending = {
            (key, name)
            for key, (link, seen) in recorder.attributes.links.items()
            for name, thing in list(link.__dict__.items())
            if thing is not seen.get(name, _MISSING) and name not in INTERNAL
        }
        self.pending |= recorder.growth.grown_by_now()

    def forgive_writes(self) -> None:
        """What the code wrote is its own affair: it writes it in every replay, too."""
        recorder = self.recorder
        for key, old in self.before.items():
            link, seen = recorder.attributes.links[key]
            for name in old.keys() | set(link.__dict__):
                thing = link.__dict__.get(name, _MISSING)
                if thing is old.get(name, _MISSING) or name in INTERNAL:
                    continue
                recorder.attributes.effect_writes.add((key, name))
                if thing is _MISSING:
                    seen.pop(name, None)
                else:
                    seen[name] = thing
        for key, old in self.contents.items():
            thing, recorded = recorder.attributes.containers[key]
            if _same(old, recorded) and not _same(_contents(thing), recorded):
                recorder.attributes.containers[key] = (thing, _contents(thing))


def _contents(thing) -> list:
    return list(thing.keys()) + list(thing.values()) if isinstance(thing, dict) else list(thing)


def _same(a: list, b: list) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def _config_of(recorder) -> dict:
    """Entries of ``chainer.config`` that the call has changed around the code."""
    entries = config_changes(recorder.nodes.config_before)
    if chainer.config.enable_backprop is not recorder.nodes.config_before.get(
        "enable_backprop", True
    ):
        entries["enable_backprop"] = chainer.config.enable_backprop
    return entries


class StaticCode:
    """A recorded ``static_code`` call as the object of a Python op.

    Parameters
    ----------
    node : TracedNode
    places : dict of Scalar to int
        Where in the control block the numbers are that may change; the others are as they were.
    """

    def __init__(self, node: TracedNode, places: dict):
        self.places = places
        self.call, self.args, self.kwargs = node.call
        self.label = node.label
        self.key = id(node)
        # Arrays of the program are handed over as copies, which the code may keep; what is the
        # user's own (arguments, parameters, attributes) is handed over itself.
        self.copied = [value.kind in (RESULT, CONSTANT) for value in node.inputs]
        self.config = node.config
        # Of the copies: those that the code wrote into while traced, and the others.
        self.written: list[int] = []
        self.read: list[int] = []
        rebuilt((self.args, self.kwargs), self._sort)
        self.fixed = [_is_fixed(value) for value in node.inputs]
        outputs = self.kwargs.get("outputs") or ()
        # Code of Chainer's that is recorded whole changes nothing that the call reads.
        self.beside = getattr(self.call, "__module__", None) != "sdbr.trace.whole"
        self.n_made = sum(type(hole) is Made for hole in outputs)
        self.outputs = [hole.index for hole in outputs if type(hole) is Input]

    def _sort(self, thing):
        if type(thing) is Input and self.copied[thing.index]:
            (self.written if thing.written else self.read).append(thing.index)
        return thing

    def __call__(self, memory, ins, outs) -> None:
        given = [x.copy() if copied else x for x, copied in zip(ins, self.copied, strict=True)]
        made: dict[int, np.ndarray] = {}

        def filled(thing):
            kind = type(thing)
            if kind is Input:
                array = given[thing.index]
                return chainer.Variable(array) if thing.is_variable else array
            if kind is Number:
                place = self.places.get(thing.scalar)
                return thing.value if place is None else memory.get_control(place)
            if kind is Made:
                start = thing.start
                start = given[start.index] if type(start) is Input else start
                return made.setdefault(thing.index, start.copy())
            return thing

        args, kwargs = rebuilt(self.args, filled), rebuilt(self.kwargs, filled)
        exits = memory.state.get(EXITS) if self.beside else None
        if exits is not None:
            exits.begins()
        try:
            with configured(self.config) if self.config else _NOTHING:
                result = run_code(self.call, args, kwargs)
        except Exception as error:
            if exits is not None:
                everything = [*given, *made.values()]
                exits.fails(error, self.call, self.label, args, kwargs, everything, None)
            raise
        written = [*map(given.__getitem__, self.written), *made.values()]
        for i in self.written:
            ins[i][...] = given[i]
        for i in self.read:
            if not _same_bytes(given[i], ins[i]):
                self._write_late(i, ins[i], given[i])
                written.append(given[i])
        if exits is not None:
            exits.ends(self.call, self.label, args, kwargs, written, result)
        for i, array in made.items():
            outs[i][...] = array
        parts = () if result is None else result if isinstance(result, (tuple, list)) else (result,)
        wanted = outs[self.n_made :]
        if len(parts) != len(wanted):
            raise NotStaticError(
                f"{self.label} returned {len(wanted)} arrays while tracing and {len(parts)} now"
            )
        for i, (part, out) in enumerate(zip(parts, wanted, strict=True)):
            array = part if type(part) is type(out) else np.asarray(part)
            if array.shape != out.shape or array.dtype != out.dtype:
                raise NotStaticError(
                    f"array {i} that {self.label} returned was {out.dtype.name}{list(out.shape)} "
                    f"while tracing and is {array.dtype.name}{list(array.shape)} now"
                )
            out[...] = array
        kept = memory.state.get(EFFECTS)
        if kept is not None:
            written = {i: ins[i].copy() for i in {*self.written, *self.outputs}}
            kept[self.key] = ([out.copy() for out in outs], written)

    def _write_late(self, i: int, place: np.ndarray, array: np.ndarray) -> None:
        """The code wrote into an array that it had only read while it was traced."""
        if self.fixed[i]:
            raise NotStaticError(
                f"{self.label} wrote into array {i} of its arguments, which it did not while "
                "tracing; hand it over in outputs=[...]"
            )
        place[...] = array


def _is_fixed(value: Value) -> bool:
    """Whether a write to the copy of an array cannot reach all that share its memory."""
    return value.kind == CONSTANT or (value.kind == RESULT and value.source[0].function is None)


def _same_bytes(a, b) -> bool:
    if type(a) is Array or a.nbytes <= _SHORT:  # NumPy's own comparison takes 3 us to begin
        return a.tobytes() == b.tobytes()
    b = np.ascontiguousarray(b)
    return np.array_equal(a.reshape(-1).view("u1"), b.reshape(-1).view("u1"))
