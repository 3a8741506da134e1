"""The forward program of a schedule, and its backward programs as gradient patterns come up."""

from __future__ import annotations

from collections.abc import Iterable

from sdbr.audit.samples import node_rows
from sdbr.backends import MACHINES
from sdbr.base.collector import collector_off
from sdbr.base.errors import SdbrError
from sdbr.lowering.backward import differentiable
from sdbr.lowering.forward import Forward
from sdbr.program import passes
from sdbr.program._memory import Followed, Memory
from sdbr.program.buffers import ARENA, BufferTable, Row, Slot
from sdbr.schedule.backward import BackwardPlan
from sdbr.schedule.build import build
from sdbr.schedule.parts import Behind, Part, Pattern, behind, parts_of, whole_pattern
from sdbr.schedule.questions import taken_back
from sdbr.schedule.results import is_made, output_values, returned_as_is
from sdbr.trace import values as v
from sdbr.trace.values import Value

import numpy as np


class ForwardPlan:
    """The forward program of a schedule, and its backward programs as patterns come up.

    Attributes
    ----------
    leaves : list of (Value, int)
        What is bound at each call, with its slot.
    staged : list of (Value, int)
        What is copied from the host to a GPU before each run, with its slot.
    outputs : list of (Value, int, tuple, dtype)
        Arrays handed to the user: value, slot, shape, dtype.
    views, hidden :
        See `HandedOut`.
    graph_outputs : list of Value
        The outputs of the autograd node.
    differentiable : list of Value
        Leaves that may want a gradient: the inputs of the autograd node. Those that the call has
        made itself and hands out (`is_made`) come last.
    parts : list of Part
        The whole call, then what it can be taken apart into.
    followed : list of int or None
        Per Variable of ``lowered.gap.followed`` its place among the outputs, None where no backward
        reads its array.
    input_indices, output_indices : tuple of int
        Value indices of `differentiable` and of `graph_outputs`.
    depths : list of int
        Per output of the autograd node how many parts are before it at most.
    arena : int or None
        Slot of the memory that the forward works in.
    arenas : list of ndarray
        Memory for runs of backwards that no run has now.
    taken_back : TakenBack or None
        What is put back of a run that met another answer.
    seconds : dict
        Managers of second derivatives.
    repeatable : bool or None
        Whether its functions give the same whenever they run; None until somebody asks.
    maybe_written : set of int or None
        Leaves that a run may write to, by value index; None until somebody asks.
    """

    def __init__(self, schedule):
        self.schedule = schedule
        trace = schedule.trace
        self.table = BufferTable(MACHINES[schedule.backend])
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
        leaves = self._leaves_of_the_graph()
        nodes = [node.traced for node in self.lowered.nodes] if schedule.keep_graph else []
        parts = parts_of(nodes, self.graph_outputs, leaves)
        reached = {x.index for part in parts for x in part.inputs}
        self.differentiable = [value for value in leaves if value.index in reached]
        own = any(part.own for part in parts)
        self.parts = [Part(0, self.graph_outputs, self.differentiable, own=own), *parts]
        depths = {y.index: part.depth for part in self.parts[1:] for y in part.outputs}
        self.depths = [depths.get(value.index, 0) for value in self.graph_outputs]
        self.backwards: dict[Pattern, BackwardPlan] = {}
        self.input_indices = tuple([x.index for x in self.differentiable])
        self.output_indices = tuple([y.index for y in self.graph_outputs])
        self._behind: dict[tuple[int, ...], Behind] = {}
        self.arenas: list[np.ndarray] = []
        self._n_lent = 0
        self.seconds: dict[tuple, object] = {}
        self.repeatable: bool | None = None
        self.maybe_written: set[int] | None = None
        self.kept_rows: list[Row] = []
        self.followed: list[int | None] = []
        self.recipes: passes.Recipes | None = None
        instructions = self.lowered.builder.instructions
        full, which = None, passes.TRANSFORMS
        if schedule.keep_graph and self.graph_outputs:
            full, instructions = self._full_backward(instructions)
            which = passes.SECOND
        self.program, self.kept = build(
            instructions, self.table, self.kept_rows, "forward", schedule.reuse, which
        )
        self.arena = self.program.arena_slot()
        if schedule.double:  # second derivatives start from what the host has
            for value, _ in self.lowered.staged:
                self.lowered.host_row(value)
        self.leaves = [(value, row.slot.index) for value, row in self.lowered.bound]
        self.staged = [(value, row.slot.index) for value, row in self.lowered.staged]
        self.taken_back = taken_back(self.program, self.leaves, schedule)
        self.lowered.builder.instructions = []
        if full is not None:
            full.finish()
            self.backwards[full.pattern] = full

    def _leaves_of_the_graph(self) -> list[Value]:
        """What wants a gradient and has no history in the call."""
        trace = self.schedule.trace
        # Chainer's graph does not show the parameters inside of ``F.forget``.
        hidden = {p.index for group in trace.forgotten for p in group.params}
        leaves = [
            value
            for value in trace.values
            if value.kind in (v.ARGUMENT, v.PARAMETER, v.ATTRIBUTE)
            and value.requires_grad
            and value.index not in hidden
        ]
        return leaves + [value for value, _, _, _ in self.outputs if is_made(value)]

    def _full_backward(self, instructions: list) -> tuple[BackwardPlan, list]:
        """The backward of every output to every leaf: tells which rows must survive the forward.

        Returns
        -------
        BackwardPlan, list of Instruction
            And the forward after the first passes.
        """
        pattern = whole_pattern(self.parts[0])
        on = passes.enabled()
        plan = BackwardPlan(self, pattern)
        # Between results that lead to no leaf there are gradients, too, where somebody asks.
        needs = differentiable(self.lowered, {x.index for x in self.differentiable})
        more = [
            BackwardPlan(self, whole_pattern(part))
            for part in self.parts[1:]
            if any(x.index not in needs for x in part.inputs)
        ]
        self.lowered.gap.finished = True
        self.followed = [None] * len(self.lowered.gap.followed)
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

    def backward(self, pattern: Pattern) -> BackwardPlan:
        """The backward program of a pattern; made when first asked for."""
        plan = self.backwards.get(pattern)
        if plan is None:
            with self.schedule.lock, collector_off():
                plan = self.backwards.get(pattern) or self._new_backward(pattern)
        return plan

    def take_arena(self, nbytes: int, memory: Memory):
        """Memory for one run of a backward, which is to go back to `arenas` after it.

        One set of activations after another takes it, whatever the pattern.
        """
        self._n_lent = 0
        try:
            arena = self.arenas.pop()
        except IndexError:
            return memory.bytes(nbytes, "the arena of a backward")
        return arena if arena.nbytes >= nbytes else memory.bytes(nbytes, "the arena of a backward")

    def was_lent(self) -> None:
        """Note that a backward needed none of `arenas`; they go if the last ones did not either."""
        self._n_lent += 1
        if self._n_lent > 16:
            self.arenas.clear()

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

    def _new_backward(self, pattern: Pattern) -> BackwardPlan:
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
    def portable(self) -> bool:
        """Whether all programs that are built are as any backend would take them."""
        return all(plan.program.portable for plan in (self, *list(self.backwards.values())))

    def behind(self, places: tuple[int, ...]) -> Behind:
        """What of the call lies behind outputs of the autograd node, by place."""
        found = self._behind.get(places)
        if found is None:
            found = self._behind[places] = behind(self.parts, places)
        return found

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
