"""The backward program of one gradient pattern."""

from __future__ import annotations

from sdbr.lowering.backward import differentiable, generate_backward
from sdbr.lowering.windows import Gradient, shows_all, window
from sdbr.program import passes
from sdbr.program.buffers import OWNED, Row
from sdbr.program.builder import Builder
from sdbr.program.program import Program
from sdbr.schedule.build import build, owned_copy
from sdbr.schedule.parts import Pattern
from sdbr.trace.values import ARGUMENT, ATTRIBUTE, RESULT, Value


class BackwardPlan:
    """One backward program.

    Attributes
    ----------
    pattern : Pattern
    seeds : list of int
        Slots of the incoming gradients, in the order of ``pattern.given``.
    grads : list of Gradient or None
        For each of ``pattern.wanted``, then for each of `hidden`; None when none reaches it.
    retained : list of Gradient or None
        For each output of the part, where ``pattern.retained``; None where none but what comes in
        reaches it.
    forgets : bool
        Whether it leads through an ``F.forget``.
    hidden : list of Value
        The parameters inside.
    followed : list of (int, Followed)
        Which of the Variables that were handed out it reads.
    arena : int or None
        Slot of the memory that only a run needs.
    temporary : list of int
        Slots that are bound for a run alone: `arena`, gradients in and out.
    """

    def __init__(self, forward, pattern: Pattern):
        self.forward = forward
        self.pattern = pattern
        self.program: Program | None = None
        table = forward.table
        builder = Builder(table)
        part = self.part = forward.parts[pattern.part]
        outputs = [part.outputs[i] for i in pattern.given]
        wanted = [part.inputs[i] for i in pattern.wanted]
        groups = self._forgotten(wanted)
        self.forgets = bool(groups)
        self.hidden = list({p.index: p for group in groups for p in group.params}.values())
        wanted = wanted + self.hidden
        seeds = {}
        self.seeds = []
        for value in outputs:
            row = table.bound(value.shape, value.dtype, f"gradient of output {value.index}")
            self.seeds.append(row.slot.index)
            seeds[value.index] = row
        noted: dict[int, Row | None] = {}
        if pattern.retained:
            noted = dict.fromkeys(value.index for value in part.outputs)
        rows = generate_backward(
            forward.lowered, builder, seeds, wanted, part.nodes, pattern.everything, noted
        )
        incoming = {row.root.index for row in seeds.values()}
        self.grads = [
            None if row is None else self._handed_out(builder, value, row, incoming)
            for value, row in [(value, rows.get(value.index)) for value in wanted]
        ]
        self.retained = []
        for value in part.outputs if pattern.retained else ():
            row, seed = noted[value.index], seeds.get(value.index)
            only_seed = row is None or (seed is not None and row.index == seed.index)
            self.retained.append(
                None if only_seed else self._handed_out(builder, value, row, incoming)
            )
        self.instructions = builder.instructions

    def _handed_out(self, builder: Builder, value: Value, row: Row, incoming: set[int]) -> Gradient:
        """The gradient of `value`, which is `row`, as it is handed out.

        That of a parameter is an array of its own. Others are what they are in Chainer where that
        takes no copy: an incoming gradient or a view of it, or a view of one that was made.
        """
        views, root = "views" in passes.enabled(), row.root
        if views and value.kind in (ARGUMENT, ATTRIBUTE, RESULT):
            if root.index in incoming:
                return Gradient(root.slot.index, None, window(row))
            repeated = row.index in builder.repeated
            if root.slot is None and root.index in builder.made and shows_all(row, repeated):
                name = f"memory of the gradient of {value.index}"
                root.slot = builder.table.slot(OWNED, root.shape, root.dtype, name)
                return Gradient(root.slot.index, (root.shape, root.dtype), window(row))
        owned = owned_copy(builder, row, f"gradient of {value.index}", views)
        return Gradient(owned.slot.index, (value.shape, value.dtype), None)

    def _forgotten(self, wanted: list[Value]) -> list:
        """The ``F.forget`` that it goes through."""
        forward, part = self.forward, self.part
        groups = [
            group
            for group in forward.schedule.trace.forgotten
            if part.nodes is None or part.nodes & group.nodes
        ]
        if self.pattern.everything or not groups:
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
        given = [*self.grads, *self.retained]
        self.temporary = list({*self.seeds, *[g.slot for g in given if g is not None]})
        self.arena = self.program.arena_slot()
        if self.arena is not None:
            self.temporary.append(self.arena)
