"""The program of a whole step: forward, backward and update of one optimizer."""

from __future__ import annotations

from sdbr.audit.samples import node_rows
from sdbr.backends import MACHINES
from sdbr.functions.registry import HALF
from sdbr.lowering.backward import generate_backward
from sdbr.lowering.forward import Forward
from sdbr.lowering.python_op import PythonBackward
from sdbr.ops.control import ALL_FINITE
from sdbr.optimizers.plan import UpdatePlan
from sdbr.optimizers.ranks.averaging import Averaging
from sdbr.program import passes
from sdbr.program.buffers import BufferTable
from sdbr.program.builder import Builder, ControlSlot
from sdbr.schedule.build import build, owned_copy
from sdbr.schedule.questions import taken_back
from sdbr.schedule.results import output_values, returned_as_is
from sdbr.schedule.schedule import Schedule
from sdbr.trace import values as v
from sdbr.trace.values import Value

import numpy as np


class StepPlan:
    """The step program of one schedule and one optimizer.

    Parameters
    ----------
    schedule : Schedule
    update : UpdatePlan
        The program includes it, where it is native as a whole.
    loss : Value
    params : list of Parameter
        Of the optimizer, which have arrays.
    others : list of Value
        Leaves that want a gradient as well.
    scaled : bool
        Whether the optimizer has a loss scale.
    averaging : Averaging or None
        What averages the gradients over ranks, between backward and update.

    Attributes
    ----------
    in_step : bool
        Whether the program includes the update.
    program : Program
    table : BufferTable
    leaves : list of (Value, int)
        What is bound, with its slot; parameters that are updated included.
    outputs : list of (Value, int, tuple, dtype)
    views, hidden, staged :
        See `HandedOut` and `ForwardPlan`.
    grads, extra_params : list of (Parameter, int, tuple, dtype)
        Parameters whose gradient the program writes, with slot, shape and dtype; parameters that
        are no leaves.
    unreached : set of int
        Ids of those whose gradient is zero, for the loss does not depend on them.
    added : list of (Value, int, tuple, dtype)
        What gets a gradient beside them: slot, shape and dtype of that.
    scale_index : int
        Of the control value that the loss is multiplied with; -1: none.
    control_base : int
        Where the numbers of the trace begin in the control block.
    taken_back : TakenBack or None
        What is put back of a run that met another answer.
    states : list of (int, ndarray)
        Slots and arrays of the optimizer's state, copies in float32 among it.
    masters : list of (Master, int)
        Parameters that get a new array, and the slot of that.
    memory : Memory or None
        On which its runner runs it.
    """

    def __init__(
        self,
        schedule: Schedule,
        update: UpdatePlan,
        loss: Value,
        params,
        others,
        scaled: bool,
        averaging: Averaging | None = None,
    ):
        trace = schedule.trace
        self.schedule = schedule
        self.update = update
        self.in_step = update.in_step and (averaging is None or averaging.ops is not None)
        self.control_base = update.n_control if self.in_step else 0
        self.scale_index = self.control_base + len(trace.scalars) if scaled else -1
        self.memory = None
        self.table = table = BufferTable(MACHINES[schedule.backend])
        forward = Forward(trace, table, True, self.control_base, together=True)
        builder: Builder = forward.builder
        views = "views" in passes.enabled()
        outs = [value for value in output_values(trace) if not returned_as_is(value)]
        self.outputs, self.views, self.hidden = forward.outputs(outs, views)
        self.node_rows = node_rows(forward)  # for audits
        cut = len(builder.instructions)
        builder.at("loss gradient")
        builder.made.clear()  # gradients may take over the memory of backward rows only
        one = ControlSlot(self.scale_index, 1.0, "loss scale") if scaled else 1.0
        seed = builder.fill(loss.shape, loss.dtype, one)
        by_param = {id(x.source): x for x in trace.values if x.kind == v.PARAMETER}
        wanted = [
            by_param[id(p)] for p in params if id(p) in by_param and by_param[id(p)].requires_grad
        ]
        wanted += others
        rows = generate_backward(forward, builder, {loss.index: seed}, wanted, everything=True)
        for instruction in builder.instructions[cut:]:
            if isinstance(instruction.obj, PythonBackward):
                instruction.obj.of_the_loss = True
        self._gradients(forward, params, by_param, rows, views)
        self._add(builder, others, rows, views)
        self.states: list = []
        self.masters: list = []
        self.extra_params: list = []
        if self.in_step:
            self._update(forward, builder, by_param, averaging)
        self.program, _ = build(
            self._make_again(builder.instructions, cut),
            table,
            [],
            "step",
            schedule.reuse,
            passes.SECOND,
        )
        self.leaves = [(value, row.slot.index) for value, row in forward.bound]
        self.staged = [(value, row.slot.index) for value, row in forward.staged]
        self.taken_back = taken_back(self.program, self.leaves, schedule)
        # Only the flat arrays and the slots are needed from here on.
        del self._grad_rows
        table.forget_rows(for_good=not hasattr(self.program, "instructions"))

    def _make_again(self, instructions: list, cut: int) -> list:
        """The first passes, and in the backward what makes again what is not kept for it.

        The backward begins at `cut`; after the passes, where the first of its ops is.
        """
        on = passes.enabled()
        backward = {id(instruction) for instruction in instructions[cut:]}
        given, table = instructions, self.table
        instructions = passes.transform(given, set(), table, on, passes.FIRST)
        cut = next((i for i, x in enumerate(instructions) if id(x) in backward), 0)
        before, after = instructions[:cut], instructions[cut:]
        recipes = passes.recipes(before, after, table, self.schedule.low_memory, on, True)
        return instructions if recipes is None else before + recipes.insert(after)

    def _gradients(self, forward, params, by_param, rows, views) -> None:
        builder = forward.builder
        self.grads = []
        self.unreached: set[int] = set()
        self._grad_rows = {}
        for p in params:
            value = by_param.get(id(p))
            row = None if value is None else rows.get(value.index)
            builder.at(f"gradient of {p.name}", "", forward.names.of_owner(p))
            if row is None:
                self.unreached.add(id(p))
                # Chainer reallocates a cleared gradient as zeros.
                owned = self.table.owned(p.shape, p.dtype, f"gradient of {p.name}")
                builder.emit("fill", [], [owned], floats=(0.0,))
            else:
                owned = owned_copy(builder, row, f"gradient of {p.name}", views)
            self._grad_rows[id(p)] = owned
            self.grads.append((p, owned.slot.index, owned.shape, owned.dtype))

    def _add(self, builder, others: list[Value], rows, views) -> None:
        self.added = []
        for value in others:
            row = rows.get(value.index)
            if row is not None:
                builder.at(f"gradient of {value.kind}")
                owned = owned_copy(builder, row, builder.label, views)
                self.added.append((value, owned.slot.index, owned.shape, owned.dtype))

    def _average(self, b: Builder, averaging: Averaging) -> None:
        """The collectives between backward and update."""
        b.at("average over ranks")
        share = 1.0 / averaging.communicator.size
        under_way = []
        for params, integers in averaging.ops or ():
            rows = [self._grad_rows[id(p)] for p in params]
            n = sum(p.size for p in params) if len(params) > 1 else 1
            flat = b.new((n,), rows[0].dtype, "flat")
            if averaging.overlaps:
                b.emit("allreduce_begin", rows, [flat], ints=(*integers, len(under_way)))
                under_way.append([flat, *rows])
            else:
                b.emit("allreduce", rows, [flat], ints=integers, floats=(share,))
        for number, rows in enumerate(under_way):
            b.emit("allreduce_end", rows, [], ints=(number,), floats=(share,))

    def _ask(self, b: Builder) -> None:
        """End the run before the update where a gradient is infinite or NaN."""
        b.at("loss scale")
        wide = [b.cast(g, np.float32) if g.dtype == HALF else g for g in self._grad_rows.values()]
        for dtype in dict.fromkeys(g.dtype for g in wide):
            finite = b.new((), np.float64, "finite")
            b.emit("all_finite", [g for g in wide if g.dtype == dtype], [finite])
            b.emit("question", [b.cast(finite, np.int64)], [], ints=(1, ALL_FINITE))

    def _update(self, forward, builder, by_param, averaging) -> None:
        update = self.update
        if averaging is not None:
            self._average(builder, averaging)
        param_rows, grad_rows, state_rows = [], [], []
        halves = update.new_halves(builder, update.parts[0])
        self.masters = [(update.masters[i], row.slot.index) for i, row in halves.items()]
        for i, (p, name) in enumerate(zip(update.params, update.names, strict=True)):
            value = by_param.get(id(p))
            if i in halves:
                array = update.operand(i).array
                row = self.table.bound(array.shape, array.dtype, f"parameter {name} in float32")
                self.states.append((row.slot.index, array))
            elif value is None:
                row = self.table.bound(p.shape, p.dtype, f"parameter {name}")
                self.extra_params.append((p, row.slot.index, row.shape, row.dtype))
            else:
                row = forward.row(value)
            param_rows.append(row)
            grad_rows.append(self._grad_rows[id(p)])
            rows = []
            for state, array in update.states(i):
                s = self.table.bound(array.shape, array.dtype, f"{name}.{state}")
                self.states.append((s.slot.index, array))
                rows.append(s)
            state_rows.append(rows)
        if update.checks_finite:
            self._ask(builder)
        builder.at("update")
        update.emit(builder, param_rows, grad_rows, state_rows, 0, None, halves)
