"""Runs a call as define-by-run and writes down what it did."""

from __future__ import annotations

import sys

from sdbr.base.reasons import Remedy
from sdbr.trace.arrays._exports import is_writeable
from sdbr.trace.arrays.known import ValueRecording
from sdbr.trace.arrays.scalars import neutral_label
from sdbr.trace.arrays.stripping import (
    holds_traced,
    is_sequence,
    is_traced,
    shown,
    strip,
    strip_nested,
)
from sdbr.trace.arrays.traced_float import ScalarRecording, plain_float
from sdbr.trace.arrays.views import ViewRecording
from sdbr.trace.arrays.wrapping import wrap
from sdbr.trace.captured import CapturedRecording
from sdbr.trace.code.catching import may_catch
from sdbr.trace.code.frames import user_frames, user_line
from sdbr.trace.code.generators import Generators
from sdbr.trace.code.profile_calls import calls_seen
from sdbr.trace.containers import Handed
from sdbr.trace.current import current, set_current
from sdbr.trace.effects.attributes import AttributeRecording
from sdbr.trace.effects.output import finish_streams
from sdbr.trace.effects.raising import told_of_values
from sdbr.trace.effects.reports import RecordingReporter
from sdbr.trace.effects.stores import StoreRecording
from sdbr.trace.forgotten import Forgotten, trace_through, why_not_through
from sdbr.trace.gradients import GradientRecording
from sdbr.trace.guards.contents import PrintRecording
from sdbr.trace.node_state import changed_by, variables_around
from sdbr.trace.nodes import (
    GRAPH,
    attributes_of,
    config_changes,
    config_entries,
    copy_node,
    has_own_backward,
    may_write_gradients,
    spent_node,
    watch_backward,
)
from sdbr.trace.not_static import may_update, why_not_static
from sdbr.trace.patches import APPLIES, PATCHES
from sdbr.trace.structure import (
    containers_in,
    fill,
    flatten,
    float_names,
    floats_in,
    mapped,
    rebuild,
)
from sdbr.trace.values import (
    ALIAS,
    ARGUMENT,
    ATTRIBUTE,
    RESULT,
    Hole,
    Rebinding,
    Report,
    Trace,
    TracedNode,
    Value,
    VariableHole,
)

import chainer
import numpy as np
from chainer import reporter
from chainer.functions.util.forget import Forget

_COPIES = ("array", "asanyarray", "asarray", "ascontiguousarray", "astype", "copy")


#: Errors that code which is not in the tables may raise.
_ANY = (IndexError, KeyError, ValueError, TypeError, ArithmeticError, RuntimeError, AttributeError)
_HOLDERS = (np.ndarray, list, tuple, dict, chainer.Variable)


class Recorder(
    ValueRecording,
    ViewRecording,
    AttributeRecording,
    ScalarRecording,
    GradientRecording,
    PrintRecording,
    CapturedRecording,
    StoreRecording,
):
    """Collects one :class:`~sdbr.trace.values.Trace`; one per traced call.

    Attributes
    ----------
    depth : int
        Above zero inside a function's forward or backward: nothing is recorded there.
    """

    def __init__(self):
        super().__init__()
        self.trace = Trace()
        self._depth = 0
        self.call_watch = None
        self.generators = Generators()
        if self.generators.unwatched:
            self.trace.unwatched.append(self.generators.unwatched)
        self.known_numbers: set[int] = set()
        # id -> (a NumPy scalar on a node, in the place of what the call has computed; its value)
        self.computed_numbers: dict[int, tuple] = {}
        self._frame = None  # of `run`, while the call is traced
        self._config = config_entries()
        self._nodes: dict[int, tuple] = {}  # id(VariableNode) -> (VariableNode, Value)
        self._functions: dict[int, tuple] = {}  # id(function) -> (weakref, node)
        self._arrays: dict[int, tuple] = {}  # id(array) -> (weakref, Value)
        self._parameters: dict[int, Value] = {}
        self._aliases: dict[int, Value] = {}  # index of a value -> its array
        self._states: dict[int, tuple] = {}  # id(array) -> (weakref, node, where on the node)
        self._left: dict[int, tuple] = {}  # id(function) -> (weakref, what its forward left there)
        self._made: dict[int, tuple] = {}  # id -> (array made from nothing, its contents then)
        self._constants: dict[int, tuple] = {}  # id(pure array) -> (array, Value)
        self._attributes: dict[tuple[int, str], Value] = {}
        self._links: dict[int, tuple] = {}  # id(link) -> (link, attributes before the call)
        # What `Reference` asks for: copies of the outputs of every node, the Variables of values.
        self.kept: list | None = None
        self.variables: dict[int, chainer.Variable] = {}
        self._containers: dict[tuple[int, str], tuple] = {}
        self._seen_reads: set = set()
        # (id(link), name): what static_code wrote; what the call wrote before static_code runs.
        self.effect_writes: set = set()
        # Lists and dicts that were handed to static_code and changed there.
        self.effect_containers: list = []
        self.pending_writes: set = set()
        self.written: set = set()  # (id(link), name): what the call has assigned
        self.seen_at_reports: list[set] = []  # per report: `written_so_far`
        self.streams: dict[int, tuple] = {}  # texts in memory that the call wrote to
        self.catchers: list = []  # context managers that may keep errors to themselves
        # Whether the functions inside of ``F.forget`` are recorded; all of them, the one that runs
        # now, and why the call has to be traced without.
        self.through = False
        self.groups: list[Forgotten] = []
        self.forgotten: Forgotten | None = None
        self.not_forgotten: str | None = None

    @property
    def depth(self) -> int:
        return self._depth

    @depth.setter
    def depth(self, depth: int) -> None:
        """What draws inside a function draws in every replay; what draws outside does not."""
        before, self._depth = self._depth, depth
        if before == 0 and depth:
            self.generators_unmoved()
            if self.call_watch is not None:
                self.call_watch.pause()
        elif before and depth == 0:
            self.generators.look()
            if self.call_watch is not None:
                self.call_watch.go_on()

    def generators_unmoved(self) -> None:
        """Nobody drew outside of functions since the generators were looked at; else dynamic."""
        moved = self.generators.moved()
        if moved is not None:
            self.mark_dynamic(
                f"{moved} was drawn from where it is not seen (before this line); draw with "
                "numpy.random and a size, or in static_code",
                Remedy.DRAW_ARRAYS,
            )

    # --- function nodes ------------------------------------------------------------------------
    def apply(self, original, function, inputs):
        if not all(isinstance(x, (chainer.Variable, np.ndarray)) for x in inputs):
            return original(function, [plain_float(x) for x in inputs])  # raises Chainer's error
        self.check_exports()
        if self.through and type(function) is Forget:
            return trace_through(self, original, function, inputs)
        template = copy_node(function)
        scalars = self.take_floats(template, function)
        values = [
            self.of_variable(x) if isinstance(x, chainer.Variable) else self.of_array(x)
            for x in inputs
        ]
        inputs = [x if isinstance(x, chainer.Variable) else strip(x) for x in inputs]
        rebind = self._rebindings(template, function, {name for name, _, _ in scalars})
        reason = why_not_static(function, values, [x for r in rebind for x in r.values])
        if reason is not None:
            self.mark_dynamic(reason.text, reason.remedy)
        if function._local_function_hooks:
            self.mark_dynamic(
                f"{function.label} has a hook of its own", Remedy.USE_FUNCTIONS, quiet=True
            )
        backprop = chainer.config.enable_backprop
        if self.forgotten is not None:
            backprop = self.forgotten.backprop(backprop)
        around = variables_around(function, user_frames(self._frame))
        self.depth += 1
        try:
            outputs = original(function, inputs)
        except Exception:
            # Whoever catches it goes another way than a replay without an error.
            self.mark_dynamic(
                f"an error of {template.label} was raised during the call", Remedy.CATCH_OUTSIDE
            )
            raise
        finally:
            self.depth -= 1
        name = changed_by(around)
        if name is not None:
            self.mark_dynamic(
                f"a result of {template.label} was left in the variable {name!r}",
                Remedy.STAY_ARRAYS,
            )
        node = TracedNode(
            template, None, None, values, [], backprop, rebind, template.label, user_line()
        )
        node.function = spent_node(function, template)
        if has_own_backward(function):
            node.own = True
            node.accumulates = may_write_gradients(function)
        node.applied = True
        if scalars:
            node.scalars = scalars
            node.label = neutral_label(node)
        watch_backward(function, node)
        self.add_node(node, outputs)
        if self.forgotten is not None:
            self.forgotten.applied(node, function, inputs, outputs)
        self.know_state(node, function)
        self.know_function(function, node)
        return outputs

    def add_node(self, node: TracedNode, outputs) -> None:
        """Append a function node whose outputs are these Variables."""
        node.caught = self.caught()
        node.config = config_changes(self._config)
        node.train = bool(chainer.config.train)
        for i, y in enumerate(outputs):
            requires_grad = y.requires_grad and node.backprop
            value = self.value(RESULT, y._data[0], requires_grad, (node, i), True)
            value.shown = y.requires_grad
            self.know_variable(y, value)
            node.outputs.append(value)
            if self.kept is not None:
                self.variables[value.index] = y
        self.trace.nodes.append(node)
        if self.kept is not None:
            self.kept.append([y._data[0].copy() for y in outputs])

    def caught(self) -> tuple[bool, bool]:
        """Whether the user's code catches an `IndexError` of what runs now; any error of it."""
        told = told_of_values()
        if told is not None:
            self.mark_dynamic(
                f"{told} lets values raise errors, which no replay does", Remedy.LOOK_AFTERWARDS
            )
        if self.catchers:
            return True, True
        index = anything = False
        for frame in user_frames(self._frame):
            index = index or may_catch(frame, (IndexError,))
            anything = index or anything or may_catch(frame, _ANY, others=True)
        return index, anything

    def _rebindings(self, template, function, floats: set) -> list:
        """Arrays among the attributes of a node; traced ones are replaced by plain ones."""
        found = []
        for owner, spent, inner, name, thing in attributes_of(template, function):
            if name in GRAPH:
                continue
            if not isinstance(thing, _HOLDERS) and not is_traced(thing):
                number = self.number_of(thing)
                if number is not None:  # a gradient takes it from the node of its function
                    found.append(Rebinding(name, Hole(0), [number], inner))
                elif name not in floats:
                    self.note_number(thing)
                continue
            values: list[Value] = []
            structure = self._holes(thing, values)
            if values:
                found.append(Rebinding(name, structure, values, inner))
            if isinstance(thing, np.ndarray) and may_update(owner, name):
                self._hold(thing, values[0])
            if holds_traced(thing):
                owner.__dict__[name] = spent.__dict__[name] = thing = strip_nested(thing)
                if isinstance(thing, np.generic):
                    self.computed_numbers[id(thing)] = (thing, values[0])
            if _holds_variable(thing):  # the template must not keep the graph behind it
                owner.__dict__[name] = _without_history(thing)
        return found

    def _hold(self, array, value: Value) -> None:
        """Note an array that a function may update in place: no copy can stand for it."""
        behind = value.source if value.kind == ALIAS else value
        behind.held = True
        if behind.kind in (ARGUMENT, ATTRIBUTE) and not array.flags.c_contiguous:
            self.mark_dynamic(
                "an array that a function may update in place is not contiguous",
                Remedy.USE_FUNCTIONS,
            )

    def _holes(self, thing, values: list):
        """`thing` with a `Hole` in the place of each array, whose values go to `values`."""
        if isinstance(thing, np.ndarray) or is_traced(thing):
            value = self.of_array(thing)
            values.append(value)
            return Hole(len(values) - 1)
        kind = type(thing)
        if kind is chainer.Variable:  # a Parameter stays: it is the user's own
            values.append(self.of_variable(thing))
            return VariableHole(len(values) - 1)
        if kind in (tuple, list):
            return kind([self._holes(t, values) for t in thing])
        if kind is dict:
            return {k: self._holes(t, values) for k, t in thing.items()}
        return strip_nested(thing)

    # --- NumPy calls of user code --------------------------------------------------------------
    def draw(self, call, args, kwargs):
        """Make a draw of NumPy's global generator and record it: every replay draws anew."""
        self.depth += 1  # the generator calls NumPy's creating functions itself
        try:
            result = call(*strip_nested(args), **strip_nested(kwargs))
        finally:
            self.depth -= 1
        if not isinstance(result, np.ndarray):
            self.mark_dynamic(
                f"numpy.random.{call.__name__} drew a Python number", Remedy.DRAW_ARRAYS
            )
            return result
        return self.numpy_call(call, args, kwargs, result, draws=True)

    def numpy_call(self, call, args, kwargs, result, draws=False):
        """Record a NumPy call on known arrays; returns `result` as traced arrays."""
        self.check_exports()
        inputs: list[Value] = []

        def hole(thing):
            kind = type(thing)
            if is_traced(thing):
                inputs.append(self._of_traced(thing))
                return Hole(len(inputs) - 1)
            if kind in (tuple, list):
                return kind([hole(t) for t in thing])
            if is_sequence(kind) and holds_traced(thing):
                return [hole(t) for t in thing]
            if kind is dict:
                return {k: hole(v) for k, v in thing.items()}
            if isinstance(thing, np.ndarray):
                known = self.find_array(thing)
                if known is None and kind is np.ndarray and thing.dtype != object:
                    known = self._unknown(thing)
                if known is not None:
                    inputs.append(known)
                    return Hole(len(inputs) - 1)
            return strip_nested(thing)

        recorded = (call, hole(tuple(args)), hole(dict(kwargs)))
        copied = call.__name__ in _COPIES and len(inputs) == 1 and _is_copy(args[0], result)
        if copied and not inputs[0].is_scalar:
            return wrap(
                result, inputs[0]
            )  # writes to a traced array are noticed: no copy is needed
        parts = list(result) if isinstance(result, (tuple, list)) else [result]
        if not all(isinstance(p, (np.ndarray, np.generic)) for p in parts):
            self.mark_dynamic(
                f"{getattr(call, '__name__', call)} turned an array into a Python value",
                Remedy.STAY_ARRAYS,
            )
            return result
        label = getattr(call, "label", None) or f"numpy {getattr(call, '__name__', call)}"
        node = TracedNode(
            None, None, recorded, inputs, [], False, [], label, user_line(), draws=draws
        )
        node.caught = self.caught()
        wrapped = []
        for i, part in enumerate(parts):
            array = np.asarray(part)
            value = self.value(RESULT, array, False, (node, i), False)
            value.is_scalar = isinstance(part, np.generic)
            self.know_array(array, value)
            node.outputs.append(value)
            wrapped.append(wrap(array, value))
        self.trace.nodes.append(node)
        if self.kept is not None:
            self.kept.append([np.array(part) for part in parts])
        return rebuild(result, wrapped) if isinstance(result, (tuple, list)) else wrapped[0]

    def read_array(self, variable, array):
        """What ``variable.array`` gives to user code."""
        if array is None or type(array) is not np.ndarray:
            return array
        known = self._nodes.get(id(variable._node))
        value = known[1] if known is not None else None
        if value is None and isinstance(variable, chainer.Parameter):
            value = self._parameter(variable)
        if value is None:
            value = self.find_array(array) or self.captured(variable)
        if value is None:
            self.looked_at.add(id(variable._node))
            return array
        return wrap(array, value)

    def read_node(self, node, array):
        """What ``variable.node.data`` gives to user code."""
        if array is None or type(array) is not np.ndarray:
            return array
        known = self._nodes.get(id(node))
        value = self.find_array(array) if known is None else known[1]
        return array if value is None else wrap(array, value)

    # --- reports -------------------------------------------------------------------------------
    def report(self, values, observer) -> None:
        items = {}
        for name, thing in values.items():
            if isinstance(thing, chainer.Variable):
                items[name] = self.of_variable(thing)
            elif isinstance(thing, np.ndarray) or is_traced(thing):
                items[name] = self.of_array(thing)
            elif self.shows_scalar(thing):
                items[name] = thing.origin
            else:
                thing = strip_nested(thing)
                items[name] = thing
                if not isinstance(thing, (int, str)):
                    self.trace.unconfirmed = True
                    self.note_number(thing)
        self.seen_at_reports.append(self.written_so_far())
        self.trace.reports.append(Report(items, observer))

    # --- the whole call ------------------------------------------------------------------------
    def run(self, function, structure, leaves, silent: bool = False, given=None):
        """Call ``function(*args, **kwargs)`` while recording.

        Parameters
        ----------
        function : callable
            With the owner already bound.
        structure : tuple
            ``(args, kwargs)`` with :class:`~sdbr.trace.structure.Leaf` at arrays.
        leaves : list
            The arrays and Variables.
        silent : bool
            Keep reported values from the user's reporter.
        given : tuple, optional
            ``(args, kwargs)`` of the caller, whose lists and dicts change when the call changes
            its own: such a call is dynamic.

        Returns
        -------
        object
            What the call returned, with plain arrays.
        """
        traced_leaves = [self.argument(leaf, i) for i, leaf in enumerate(leaves)]
        mapped(structure, lambda x: self.known_numbers.add(id(x)))
        floats = floats_in(structure)
        names = float_names(structure)
        slots = iter([self.float_argument(i, x, names[i]) for i, x in enumerate(floats)])
        own = mapped(structure, lambda x: next(slots) if type(x) is float else x)
        filled = fill(own, traced_leaves)
        handed = None if given is None else Handed(given, filled)
        args, kwargs = filled if handed is None else handed.arguments
        reporters = reporter._get_reporters()
        recording = RecordingReporter(self, reporters[-1] if reporters and not silent else None)
        PATCHES.release_thread()  # what an interrupted trace left
        self.count_given(traced_leaves)
        with APPLIES, PATCHES:
            try:
                self._frame = sys._getframe()
                set_current(self)
                reporters.append(recording)
                with calls_seen(self):
                    self.generators.look()
                    result = function(*args, **kwargs)
                    self.generators_unmoved()
            finally:
                set_current(None)
                self._frame = None
                _drop_recording(reporters)
        finish_streams(self)
        out_leaves: list = []
        returned = flatten(result, "the result", out_leaves)
        out_structure = mapped(returned, self.shown_scalar)
        values = [
            self.of_variable(x) if isinstance(x, chainer.Variable) else self.of_array(x)
            for x in out_leaves
        ]
        _note_writeable(out_leaves, values)
        self.trace.result = fill(out_structure, values)
        self.check_exports()
        if handed is not None and handed.changed():
            self.mark_dynamic(
                "a list or dict among the arguments was changed", Remedy.CHANGE_A_COPY
            )
        self._collect_writes(out_leaves, containers_in(result))
        if handed is not None:
            handed.give_back()
        self.finish_floats(floats)
        self.trace.unconfirmed = self.trace.unconfirmed or _has_floats(out_structure)
        mapped(out_structure, self.note_number)
        self.not_forgotten = why_not_through(self)
        plain = [x if isinstance(x, chainer.Variable) else shown(x) for x in out_leaves]
        return fill(mapped(returned, plain_float), plain)


def traced_by_caller() -> bool:
    """Whether a trace of this thread is under way, so that this call is a part of it.

    A signal (Ctrl-C) at the wrong moment leaves a recorder behind whose call has ended: it is
    taken away here.
    """
    recorder = current()
    if recorder is None:
        return False
    frame = sys._getframe(1)
    while frame is not None:
        if frame is recorder._frame:
            return True
        frame = frame.f_back
    set_current(None)
    PATCHES.release_thread()
    APPLIES.release_thread()
    _drop_recording(reporter._get_reporters())
    return False


def _note_writeable(things: list, values: list) -> None:
    """Note on the values of results whether user code may write to their arrays."""
    for thing, value in zip(things, values, strict=True):
        array = thing._data[0] if isinstance(thing, chainer.Variable) else thing
        if issubclass(type(array), np.ndarray):  # a traced scalar says that it is one
            value.writeable = is_writeable(array)


def _drop_recording(reporters: list) -> None:
    reporters[:] = [r for r in reporters if type(r) is not RecordingReporter]


def _holds_variable(thing) -> bool:
    kind = type(thing)
    if kind in (list, tuple):
        return any(map(_holds_variable, thing))
    if kind is dict:
        return any(map(_holds_variable, thing.values()))
    return kind is chainer.Variable


def _without_history(thing):
    kind = type(thing)
    if kind in (list, tuple):
        return kind([_without_history(t) for t in thing])
    if kind is dict:
        return {k: _without_history(t) for k, t in thing.items()}
    return chainer.Variable(thing._data[0]) if kind is chainer.Variable else thing


def _is_copy(array, result) -> bool:
    return is_traced(array) and (array.dtype, array.shape) == (result.dtype, result.shape)


def _has_floats(structure) -> bool:
    if isinstance(structure, float):
        return True
    if isinstance(structure, dict):
        return any(_has_floats(v) for v in structure.values())
    if isinstance(structure, (list, tuple)):
        return any(_has_floats(v) for v in structure)
    return False
