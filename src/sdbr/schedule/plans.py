"""The forward program of a schedule, and its backward programs as gradient patterns come up."""

from __future__ import annotations

from collections.abc import Iterable

from sdbr.audit.samples import node_rows
from sdbr.base.collector import collector_off
from sdbr.base.errors import SdbrError
from sdbr.lowering.backward import differentiable, generate_backward
from sdbr.lowering.forward import Forward
from sdbr.program import memory as memory_plan
from sdbr.program import passes
from sdbr.program._memory import Followed
from sdbr.program.buffers import ARENA, BufferTable, Row, Slot
from sdbr.program.builder import Builder
from sdbr.program.program import Program, assemble
from sdbr.schedule.parts import Part, parts_of
from sdbr.trace import values as v
from sdbr.trace.values import Trace, Value

import chainer


def output_values(trace: Trace) -> list[Value]:
    """The distinct values that are handed to the user, in order."""
    return list({value.index: value for value in v.handed_out(trace)}.values())


def returned_as_is(value: Value) -> bool:
    """Leaves that come back are the caller's own objects, not copies."""
    return value.kind in (v.ARGUMENT, v.PARAMETER, v.ATTRIBUTE)


def is_made(value: Value) -> bool:
    """Whether a Variable that is handed out is a leaf of the graph, made by the call itself."""
    return (
        value.is_variable
        and value.requires_grad
        and (value.kind in (v.ALIAS, v.CONSTANT) or (value.kind == v.RESULT and value.unchained))
    )


def build(
    instructions, table, kept, name, reuse, which=passes.TRANSFORMS
) -> tuple[Program, set[int]]:
    """Run the passes, plan memory and assemble.

    Parameters
    ----------
    instructions : list of Instruction
    table : BufferTable
    kept : list of Row
        Arena rows that are read after the program.
    name : str
    reuse : bool
    which : tuple
        The passes that are left to run.

    Returns
    -------
    Program, set of int
        The program and the root row indices that live on.
    """
    on = passes.enabled()
    roots = {row.root.index for row in kept}
    instructions = passes.transform(instructions, roots, table, on, which)
    aliases = passes.inplace(instructions, roots) if "inplace" in on and reuse else {}
    arena = memory_plan.plan(instructions, table, kept, f"{name} arena", reuse, aliases)
    program = assemble(instructions, table, name, arena)
    if getattr(chainer.config, "sdbr_keep_instructions", False):
        program.instructions, program.kept = instructions, kept  # what tests look at
    return program, roots


class ForwardPlan:
    """The forward program of a schedule, and its backward programs as patterns come up.

    Attributes
    ----------
    leaves : list of (Value, int)
        What is bound at each call, with its slot.
    outputs : list of (Value, int, tuple, dtype)
        Arrays handed to the user: value, slot, shape, dtype.
    views, hidden :
        See `Outputs`.
    graph_outputs : list of Value
        The outputs of the autograd node.
    differentiable : list of Value
        Leaves that may want a gradient: the inputs of the autograd node. Those that the call has
        made itself and hands out (`is_made`) come last.
    parts : list of Part
        The whole call, then what it can be taken apart into.
    followed : list of int
        Per Variable of ``lowered.gap.followed`` its place among the outputs, -1 where no backward
        reads its array.
    depths : list of int
        Per output of the autograd node how many parts are before it at most.
    """

    def __init__(self, schedule):
        self.schedule = schedule
        trace = schedule.trace
        self.table = BufferTable()
        self.lowered = Forward(trace, self.table, schedule.keep_graph)
        views = "views" in passes.enabled()
        outs = [value for value in output_values(trace) if not returned_as_is(value)]
        self.outputs, self.views, self.hidden = self.lowered.outputs(outs, views)
        self.node_rows = node_rows(self.lowered)  # for audits
        self.graph_outputs = [
            value
            for value, _, _, _ in self.outputs
            if schedule.keep_graph
            and value.requires_grad
            and value.kind == v.RESULT
            and not value.unchained
        ]
        leaves = [
            value
            for value in trace.values
            if value.kind in (v.ARGUMENT, v.PARAMETER, v.ATTRIBUTE) and value.requires_grad
        ]
        # Chainer's graph does not show the parameters inside of ``F.forget``.
        hidden = {p.index for group in trace.forgotten for p in group.params}
        leaves = [value for value in leaves if value.index not in hidden]
        leaves += [value for value, _, _, _ in self.outputs if is_made(value)]
        nodes = [node.traced for node in self.lowered.nodes] if schedule.keep_graph else []
        parts = parts_of(nodes, self.graph_outputs, leaves)
        reached = {x.index for part in parts for x in part.inputs}
        self.differentiable = [value for value in leaves if value.index in reached]
        own = any(part.own for part in parts)
        self.parts = [Part(0, self.graph_outputs, self.differentiable, own=own), *parts]
        depths = {y.index: part.depth for part in self.parts[1:] for y in part.outputs}
        self.depths = [depths.get(value.index, 0) for value in self.graph_outputs]
        self.backwards: dict[tuple, BackwardPlan] = {}
        self.seconds: dict[tuple, object] = {}  # managers of second derivatives
        self.kept_rows: list[Row] = []
        self.followed: list[int] = []
        self.recipes: passes.Recipes | None = None
        instructions = self.lowered.builder.instructions
        full, which = None, passes.TRANSFORMS
        if schedule.keep_graph and self.graph_outputs:
            full, instructions = self._full_backward(instructions)
            which = passes.SECOND
        self.program, self.kept = build(
            instructions, self.table, self.kept_rows, "forward", schedule.reuse, which
        )
        self.leaves = [(value, row.slot.index) for value, row in self.lowered.bound]
        self.lowered.builder.instructions = []
        if full is not None:
            full.finish()
            self.backwards[full.pattern] = full

    def _full_backward(self, instructions: list) -> tuple[BackwardPlan, list]:
        """The backward of every output to every leaf: tells which rows must survive the forward.

        Returns
        -------
        BackwardPlan, list of Instruction
            And the forward after the first passes.
        """
        pattern = _pattern_of(self.parts[0])
        on = passes.enabled()
        plan = BackwardPlan(self, pattern)
        # Between results that lead to no leaf there are gradients, too, where somebody asks.
        needs = differentiable(self.lowered, {x.index for x in self.differentiable})
        more = [
            BackwardPlan(self, _pattern_of(part))
            for part in self.parts[1:]
            if any(x.index not in needs for x in part.inputs)
        ]
        self.lowered.gap.finished = True
        self.followed = [-1] * len(self.lowered.gap.followed)
        for x in (plan, *more):
            self.follow(row.root.slot for i in x.instructions for row in i.ins)
        kept = {row.index for x in (plan, *more) for row in x.needs()}
        instructions = passes.transform(instructions, kept, self.table, on, passes.FIRST)
        plan.instructions = passes.transform(plan.instructions, kept, self.table, on, passes.FIRST)
        self.recipes = passes.recipes(
            instructions, plan.instructions, self.table, self.schedule.low_memory, on, False
        )
        if self.recipes is not None:
            instructions = self.recipes.copies(instructions)
        plan.make_again(self.recipes)
        rows = {row.index: row for x in (plan, *more) for row in x.needs()}
        self.kept_rows += rows.values()
        return plan, instructions

    def backward(self, pattern: tuple) -> BackwardPlan:
        """The backward program of a pattern.

        Parameters
        ----------
        pattern : tuple
            Outputs with a gradient and inputs that want one, of which part, and whether every
            backward runs that may do more than give gradients.
        """
        plan = self.backwards.get(pattern)
        if plan is None:
            with self.schedule.lock, collector_off():
                plan = self.backwards.get(pattern) or self._new_backward(pattern)
        return plan

    def follow(self, slots: Iterable[Slot | None]) -> list[tuple[int, Followed]]:
        """Hold the arrays of Variables that are read in `slots`; which these are, by number."""
        found = self.lowered.gap.followed_in({slot.index for slot in slots if slot is not None})
        for i, followed in found:
            self.followed[i] = followed.place
        return found

    def place(self, value: Value) -> int:
        """The place of `value` among the outputs."""
        return next(i for i, found in enumerate(self.outputs) if found[0].index == value.index)

    def forget(self, plan: BackwardPlan) -> None:
        """The next backward of its pattern gets a new program."""
        with self.schedule.lock:
            if self.backwards.get(plan.pattern) is plan:
                del self.backwards[plan.pattern]

    def _new_backward(self, pattern: tuple) -> BackwardPlan:
        plan = BackwardPlan(self, pattern)
        plan.instructions = passes.transform(
            plan.instructions, self.kept, self.table, passes.enabled(), passes.FIRST
        )
        plan.make_again(self.recipes)
        lost = plan.needs()
        for instruction in plan.instructions:
            for row in instruction.ins:
                root = row.root
                if root in lost or (
                    root.slot is not None
                    and root.slot.kind == ARENA
                    and root.index not in self.kept
                ):
                    raise SdbrError(f"{instruction.label}: {row!r} was not kept by the forward")
        plan.finish()
        self.backwards[pattern] = plan
        return plan

    @property
    def comes_apart(self) -> bool:
        """Whether there is something to look at between the results."""
        return len(self.parts) > 2

    def order(self, value: Value) -> bool | None:
        """Whether backwards that may write gradients run before those of what reads a parameter.

        True before all of them, False after one of them, None where neither can be said.
        """
        ranks: dict[int, int] = {}
        own, readers = [], []
        for lowered in self.lowered.nodes:
            traced = lowered.traced
            rank = max([ranks.get(x.index, 0) for x in traced.inputs], default=0)
            ranks.update((y.index, rank + 1) for y in traced.outputs)
            if traced.own:
                own.append(rank)
            if traced.backprop and any(x.index == value.index for x in traced.inputs):
                readers.append(rank)
        if not own:
            return False
        if min(own) > max(readers):
            return True
        return False if max(own) < max(readers) else None


class BackwardPlan:
    """One backward program.

    Attributes
    ----------
    pattern : tuple
    seeds : list of int
        Slots of the incoming gradients, in the order of ``pattern[0]``.
    grads : list of (int, tuple, dtype) or None
        Slot, shape and dtype of the gradient for each of ``pattern[1]``, then for each of `hidden`;
        None when none reaches it.
    forgets : bool
        Whether it leads through an ``F.forget``.
    hidden : list of Value
        The parameters inside.
    followed : list of (int, Followed)
        Which of the Variables that were handed out it reads.
    """

    def __init__(self, forward: ForwardPlan, pattern: tuple):
        self.forward = forward
        self.pattern = pattern
        self.program: Program | None = None
        table = forward.table
        builder = Builder(table)
        part = self.part = forward.parts[pattern[2]]
        given = [part.outputs[i] for i in pattern[0]]
        wanted = [part.inputs[i] for i in pattern[1]]
        groups = self._forgotten(wanted)
        self.forgets = bool(groups)
        self.hidden = list({p.index: p for group in groups for p in group.params}.values())
        wanted = wanted + self.hidden
        seeds = {}
        self.seeds = []
        for value in given:
            row = table.bound(value.shape, value.dtype, f"gradient of output {value.index}")
            self.seeds.append(row.slot.index)
            seeds[value.index] = row
        rows = generate_backward(forward.lowered, builder, seeds, wanted, part.nodes, pattern[3])
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

    def _forgotten(self, wanted: list[Value]) -> list:
        """The ``F.forget`` that it goes through."""
        forward, part = self.forward, self.part
        groups = [
            group
            for group in forward.schedule.trace.forgotten
            if part.nodes is None or part.nodes & group.nodes
        ]
        if self.pattern[3] or not groups:
            return groups
        needs = differentiable(forward.lowered, {value.index for value in wanted}, part.nodes)
        return [g for g in groups if any(x.index in needs for x in g.inputs)]

    def make_again(self, recipes: passes.Recipes | None) -> None:
        """Put in front of their readers the ops that make again what the forward does not keep."""
        if recipes is not None:
            self.instructions = recipes.insert(self.instructions)

    def needs(self) -> list[Row]:
        """The roots without a place that its instructions read and do not make."""
        made = {row.root.index for i in self.instructions for row in i.outs}
        found: dict[int, Row] = {}
        for instruction in self.instructions:
            for row in instruction.ins:
                if row.root.slot is None and row.root.index not in made:
                    found[row.root.index] = row.root
        return list(found.values())

    def finish(self) -> None:
        """Plan and assemble, after the forward has its memory."""
        schedule = self.forward.schedule
        self.program, _ = build(
            self.instructions, self.forward.table, [], "backward", schedule.reuse, passes.SECOND
        )
        self.followed = self.forward.follow(self.program.slots)
        self.instructions = []


def _pattern_of(part: Part) -> tuple:
    """All outputs of a part carry a gradient, all inputs want one."""
    return (
        tuple(range(len(part.outputs))),
        tuple(range(len(part.inputs))),
        part.index,
        part.own,
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
