"""A schedule: one traced call as programs, and the instances that run them."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref

from sdbr._executor import Memory
from sdbr._memory import claim_backward
from sdbr.backends import make_executable
from sdbr.errors import SdbrError, StaleGraphError, ValidationError
from sdbr.functions.lowering import Forward, generate_backward
from sdbr.program import memory as memory_plan
from sdbr.program import passes
from sdbr.program.buffers import ARENA, BufferTable, Row
from sdbr.program.builder import Builder
from sdbr.program.program import Program, assemble
from sdbr.trace import values as v
from sdbr.trace.values import Trace, Value

import chainer
import numpy as np


class Retrace(Exception):
    """A replay found that its schedule no longer fits; internal."""


class Schedule:
    """Everything that was made from one traced call.

    Attributes
    ----------
    key : tuple
        The cache key.
    trace : Trace
    programs : dict
        ``'forward'`` -> Program, ``'backward'`` -> list of Program (one per gradient pattern),
        ``'update'`` and ``'step'`` where they exist.
    backend : str
    reuse : bool
        False in the debug mode without memory reuse.
    """

    def __init__(self, key, trace: Trace, keep_graph: bool, backend: str, reuse: bool = True):
        self.key = key
        self.trace = trace
        self.keep_graph = keep_graph
        self.backend = backend
        self.reuse = reuse
        self.calls = 0
        self.instances: list[Instance] = []
        # By optimizer; the optimizer keeps them alive.
        self.step_plans = weakref.WeakValueDictionary()
        self.gone = False  # the manager has forgotten it
        self.dynamic: tuple[str, str] | None = None
        self.unconfirmed = False
        self.guards = None
        self.line = ""
        self.created = 0.0
        self.trace_seconds = 0.0
        self.build_seconds = 0.0
        self.returned_leaves: list[Value] | None = None
        self._forward: ForwardPlan | None = None
        self.lock = threading.RLock()  # while a program is built

    def __reduce__(self):
        # Copies and pickles of a chain start without.
        return type(None), ()

    def __deepcopy__(self, memo) -> None:
        return None

    def on_backend(self, key) -> Schedule:
        """The same programs for the executor that `key` ends with; nothing is traced or built."""
        # Both build their backward programs into one plan.
        _ = self.forward if self.dynamic is None else None
        other = object.__new__(Schedule)
        other.__dict__.update(self.__dict__)
        other.key, other.backend = key, key[-1]
        other.calls = 0
        other.instances = []
        other.step_plans = weakref.WeakValueDictionary()
        return other

    @property
    def forward(self) -> ForwardPlan:
        """The forward plan; built when first asked for."""
        if self._forward is None:
            with self.lock, collector_off():
                if self._forward is None:
                    self._forward = ForwardPlan(self)
        return self._forward

    @property
    def programs(self) -> dict:
        forward = self.forward
        programs = {
            "forward": forward.program,
            "backward": [p.program for p in forward.backwards.values()],
        }
        for plan in list(self.step_plans.values()):
            programs["step"] = plan.program
        return programs

    def __repr__(self) -> str:
        return f"<Schedule of {len(self.trace.nodes)} nodes, {self.calls} calls>"


def output_values(trace: Trace) -> list[Value]:
    """The distinct values that are handed to the user, in order."""
    seen: dict[int, Value] = {}

    def visit(thing):
        if isinstance(thing, Value):
            seen.setdefault(thing.index, thing)
        elif isinstance(thing, dict):
            for t in thing.values():
                visit(t)
        elif isinstance(thing, (list, tuple)):
            for t in thing:
                visit(t)

    visit(trace.result)
    for write in trace.writes:
        visit(write.value)
    for report in trace.reports:
        visit(report.items)
    return list(seen.values())


def returned_as_is(value: Value) -> bool:
    """Leaves that come back are the caller's own objects, not copies."""
    return value.kind in (v.ARGUMENT, v.PARAMETER, v.ATTRIBUTE)


def build(instructions, table, kept, name, reuse, backend=None) -> tuple[Program, set[int]]:
    """Run the passes, plan memory and assemble.

    Parameters
    ----------
    instructions : list of Instruction
    table : BufferTable
    kept : list of Row
        Arena rows that are read after the program.
    name : str
    reuse : bool

    Returns
    -------
    Program, set of int
        The program and the root row indices that live on.
    """
    on = passes.enabled()
    roots = {row.root.index for row in kept}
    if "dead_code" in on:
        instructions = passes.dead_code(instructions, roots)
    if "fusion" in on:
        instructions = passes.fusion(instructions, roots)
    aliases = passes.inplace(instructions, roots) if "inplace" in on and reuse else {}
    arena = memory_plan.plan(instructions, table, kept, f"{name} arena", reuse, aliases)
    program = assemble(instructions, table, name, arena)
    program.instructions = instructions
    program.kept = kept
    return program, roots


class ForwardPlan:
    """The forward program of a schedule, and its backward programs as patterns come up.

    Attributes
    ----------
    leaves : list of (Value, int)
        What is bound at each call, with its slot.
    outputs : list of (Value, int, tuple, dtype)
        Arrays handed to the user: value, slot, shape, dtype.
    differentiable : list of Value
        Leaves that may want a gradient: the inputs of the autograd node.
    """

    def __init__(self, schedule: Schedule):
        self.schedule = schedule
        trace = schedule.trace
        self.table = BufferTable()
        self.lowered = Forward(trace, self.table, schedule.keep_graph)
        views = "views" in passes.enabled()
        outs = [value for value in output_values(trace) if not returned_as_is(value)]
        self.outputs = []
        for value in outs:
            row = self.lowered.output(value, views)
            self.outputs.append((value, row.slot.index, value.shape, value.dtype))
        self.output_slot = {value.index: slot for value, slot, _, _ in self.outputs}
        self.graph_outputs = [
            value
            for value, _, _, _ in self.outputs
            if schedule.keep_graph and value.requires_grad and value.kind == v.RESULT
        ]
        reached = {x.index for node in self.lowered.nodes for x in node.traced.inputs}
        self.differentiable = [
            value
            for value in trace.values
            if value.kind in (v.ARGUMENT, v.PARAMETER, v.ATTRIBUTE)
            and value.requires_grad
            and value.index in reached
        ]
        self.backwards: dict[tuple, BackwardPlan] = {}
        self.kept_rows: list[Row] = []
        full = self._full_backward() if schedule.keep_graph and self.graph_outputs else None
        self.program, self.kept = build(
            self.lowered.builder.instructions, self.table, self.kept_rows, "forward", schedule.reuse
        )
        self.leaves = [(value, row.slot.index) for value, row in self.lowered.bound]
        if full is not None:
            full.finish()
            self.backwards[full.pattern] = full

    def _full_backward(self) -> BackwardPlan:
        """The backward of every output to every leaf: tells which rows must survive the forward."""
        pattern = (tuple(range(len(self.graph_outputs))), tuple(range(len(self.differentiable))))
        plan = BackwardPlan(self, pattern)
        made = {row.root.index for i in plan.instructions for row in i.outs}
        seen = set()
        for instruction in plan.instructions:
            for row in instruction.ins:
                root = row.root
                if root.slot is None and root.index not in made and root.index not in seen:
                    seen.add(root.index)
                    self.kept_rows.append(root)
        return plan

    def backward(self, pattern: tuple) -> BackwardPlan:
        """The backward program of a pattern: (outputs with a gradient, leaves that want one)."""
        plan = self.backwards.get(pattern)
        if plan is None:
            with self.schedule.lock, collector_off():
                plan = self.backwards.get(pattern) or self._new_backward(pattern)
        return plan

    def _new_backward(self, pattern: tuple) -> BackwardPlan:
        plan = BackwardPlan(self, pattern)
        made = {row.root.index for i in plan.instructions for row in i.outs}
        for instruction in plan.instructions:
            for row in instruction.ins:
                root = row.root
                lost = root.slot is None and root.index not in made
                if lost or (
                    root.slot is not None
                    and root.slot.kind == ARENA
                    and root.index not in self.kept
                ):
                    raise SdbrError(f"{instruction.label}: {row!r} was not kept by the forward")
        plan.finish()
        self.backwards[pattern] = plan
        return plan


class BackwardPlan:
    """One backward program.

    Attributes
    ----------
    pattern : tuple
    seeds : list of int
        Slots of the incoming gradients, in the order of ``pattern[0]``.
    grads : list of (int, tuple, dtype) or None
        Slot, shape and dtype of the gradient for each of ``pattern[1]``; None when none reaches it.
    """

    def __init__(self, forward: ForwardPlan, pattern: tuple):
        self.forward = forward
        self.pattern = pattern
        self.program: Program | None = None
        table = forward.table
        builder = Builder(table)
        given = [forward.graph_outputs[i] for i in pattern[0]]
        wanted = [forward.differentiable[i] for i in pattern[1]]
        seeds = {}
        self.seeds = []
        for value in given:
            row = table.bound(value.shape, value.dtype, f"gradient of output {value.index}")
            self.seeds.append(row.slot.index)
            seeds[value.index] = row
        rows = generate_backward(forward.lowered, builder, seeds, wanted)
        views = "views" in passes.enabled()
        self.grads = []
        for value in wanted:
            row = rows.get(value.index)
            if row is None:
                self.grads.append(None)
                continue
            owned = hand_out(builder, row, f"gradient of {value.index}", views)
            self.grads.append((owned.slot.index, value.shape, value.dtype))
        self.instructions = builder.instructions

    def finish(self) -> None:
        """Plan and assemble, after the forward has its memory."""
        self.program, _ = build(
            self.instructions, self.forward.table, [], "backward", self.forward.schedule.reuse
        )


def hand_out(builder: Builder, row: Row, name: str, forward_views: bool) -> Row:
    """An owned row with the contents of `row`.

    Where `forward_views` is true and an op of `builder` fills all of an arena row of its own, it
    writes there directly; else the row is copied.
    """
    root = row.root
    owned = builder.table.owned(row.shape, row.dtype, name)
    if (
        forward_views
        and root.slot is None
        and root.index in builder.made
        and row.offset == 0
        and row.nbytes == root.nbytes
        and row.is_contiguous
    ):
        root.slot = owned.slot
    else:
        builder.emit("copy", [row], [owned])
    return owned


@contextlib.contextmanager
def collector_off():
    """Building makes many small objects that all stay: the garbage collector is in the way."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


class Instance:
    """One set of activations of a schedule.

    Attributes
    ----------
    node : weakref or None
        The autograd node of the call whose activations these are.
    generation : int
        Goes up when another call takes the activations.
    backward_done : bool
    """

    def __init__(self, schedule: Schedule):
        plan = schedule.forward
        self.schedule = schedule
        self.plan = plan
        self.memory = Memory(len(plan.table.slots), 0)
        self.memory.reserve(plan.program)
        self.executable = make_executable(plan.program, self.memory, schedule.backend)
        self.backward_executables: dict[tuple, object] = {}
        self.node = None
        self.generation = 0
        self.backward_done = False
        self.running = False
        self.lock = threading.RLock()  # while a backward runs
        self.call_line = 0  # number of the call that has the activations
        self.binder = None

    def bind(self, sources: list) -> None:
        """Bind arguments, parameters and captured state.

        Parameters
        ----------
        sources : list
            Per leaf of the plan the Variable or array that the call saw (see `sources_of`).
            A backward binds the same objects anew: an array replaced in a Variable is seen.

        Raises
        ------
        Retrace
            If one of them no longer has the shape and dtype of the trace.
        """
        for (value, slot), source in zip(self.plan.leaves, sources, strict=True):
            array = source._data[0] if isinstance(source, chainer.Variable) else source
            if array is None or array.shape != value.shape or array.dtype != value.dtype:
                raise Retrace(value)
            self.memory.bind(slot, contiguous(array))

    def run_forward(self, sources: list, watch=None) -> dict[int, np.ndarray]:
        """Run the forward program; returns output arrays by value index.

        `watch` is called with the index of every op that has just run.
        """
        memory = self.memory
        self.bind(sources)
        arrays = {}
        for value, slot, shape, dtype in self.plan.outputs:
            array = np.empty(shape, dtype)
            memory.bind(slot, array)
            arrays[value.index] = array
        if watch is None:
            self.executable.run()
        else:
            for i in self.executable.step():
                watch(i)
        return arrays

    def run_backward(self, pattern: tuple, grads: list, sources: list) -> list:
        """Run the backward program of `pattern`; returns gradients, None where none reaches."""
        plan = self.plan.backward(pattern)
        executable = self.backward_executables.get(pattern)
        if executable is None:
            self.memory.reserve(plan.program)
            # A gradient that goes nowhere has a slot, but no place in the program.
            self.memory.grow(max(plan.seeds, default=-1) + 1, 0)
            executable = make_executable(plan.program, self.memory, self.schedule.backend)
            self.backward_executables[pattern] = executable
        memory = self.memory
        self.bind(sources)
        for slot, g in zip(plan.seeds, grads, strict=True):
            memory.bind(slot, contiguous(g))
        arrays: list = []
        for grad in plan.grads:
            if grad is None:
                arrays.append(None)
                continue
            slot, shape, dtype = grad
            array = np.empty(shape, dtype)
            memory.bind(slot, array)
            arrays.append(array)
        executable.run()
        return arrays


def contiguous(array: np.ndarray) -> np.ndarray:
    """`array` as an exact, C-contiguous, aligned ndarray; itself where it is one."""
    if type(array) is not np.ndarray:
        array = np.asarray(array)
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    return array if array.flags.aligned else array.copy()


def source_of(value: Value, leaves):
    """The Variable or array that a leaf of the trace stands for now."""
    if value.kind == v.ARGUMENT:
        return leaves[value.source]
    if value.kind == v.PARAMETER:
        return value.source
    link, name = value.source
    return link.__dict__.get(name)


def sources_of(plan: ForwardPlan, leaves) -> list:
    """What every leaf of `plan` stands for now."""
    return [source_of(value, leaves) for value, _ in plan.leaves]


class StaticCall(chainer.FunctionNode):
    """A replayed call in the graph: arguments, captured state and parameters in, outputs out."""

    reference = None  # of a call that is validated

    def __init__(self, instance: Instance, sources: list, manager):
        self.instance = instance
        self.generation = instance.generation
        self.sources = sources
        self.manager = manager

    @property
    def label(self) -> str:
        return "static_graph"

    def forward(self, inputs):
        raise SdbrError("a replayed call cannot be applied")

    def connect(self, inputs: list, outputs: list) -> None:
        """Wire the node into the graph as ``apply`` would have done."""
        self._input_layouts = (None,) * len(inputs)
        self._output_layouts = (None,) * len(outputs)
        self._output_count = len(outputs)
        self.inputs = tuple([x.node for x in inputs])
        self.rank = max([x.rank for x in inputs], default=0)
        for y in outputs:
            y.creator_node = self
        self.outputs = tuple([weakref.ref(y.node) for y in outputs])
        self.lazy_grad_sum = chainer.config.lazy_grad_sum

    def backward(self, target_input_indexes, grad_outputs):
        with self.instance.lock:
            return self._backward(target_input_indexes, grad_outputs)

    def _backward(self, target_input_indexes, grad_outputs):
        instance = self.instance
        if not claim_backward(instance, self.generation):
            self.manager.keep_all_calls()
            raise StaleGraphError(
                f"the activations of call {self.call_line} of {self.manager.name} (traced at "
                f"{instance.schedule.line}) were taken by call {instance.call_line} before this "
                "backward; from now on this chain keeps one schedule per live call"
            )
        given = tuple(i for i, g in enumerate(grad_outputs) if g is not None)
        pattern = (given, tuple(target_input_indexes))
        try:
            grads = instance.run_backward(
                pattern, [grad_outputs[i].array for i in given], self.sources
            )
            self.manager.statistics.count_run(instance.backward_executables[pattern])
            instance.backward_done = True
        except Retrace as e:
            value = e.args[0]
            name = getattr(value.source, "name", None) or value.source
            raise SdbrError(
                f"{value.kind} {name} of {self.manager.name} was "
                f"{value.dtype.name}{list(value.shape)} in the forward and has got "
                "another shape or dtype before the backward"
            ) from None
        finally:
            instance.running = False
        if self.reference is not None:
            inputs = [x.get_variable() for x in self.inputs]
            given_grads = [grad_outputs[i].array for i in given]
            self.reference.check_gradients(instance.plan, pattern, given_grads, inputs, grads)
        gxs = [None if g is None else chainer.Variable(g) for g in grads]
        if chainer.config.enable_backprop:
            inputs = [x.get_variable() for x in self.inputs]
            gxs = _without_second_derivative(gxs, [*inputs, *[grad_outputs[i] for i in given]])
        return tuple(gxs)


class _NoSecondDerivative(chainer.FunctionNode):
    """Passes gradients on; its own backward is the error that names the switch."""

    def forward(self, inputs):
        return tuple(inputs[: self.n])

    def backward(self, target_input_indexes, grad_outputs):
        raise SdbrError(
            "a second derivative was asked through a static chain; decorate it with "
            "sdbr.static_graph(enable_double_backprop=True)"
        )


def _without_second_derivative(gxs, inputs):
    present = [g for g in gxs if g is not None]
    if not present:
        return gxs
    node = _NoSecondDerivative()
    node.n = len(present)
    outs = iter(node.apply([*present, *[x for x in inputs if x.array is not None]]))
    return [None if g is None else next(outs) for g in gxs]


__all__ = ["Instance", "Retrace", "Schedule", "StaticCall", "ValidationError"]
