"""The program of a whole step: forward, backward and update of one optimizer."""

from __future__ import annotations

from sdbr.audit.samples import node_rows
from sdbr.backends import MACHINES
from sdbr.lowering.backward import generate_backward
from sdbr.lowering.forward import Forward
from sdbr.lowering.python_op import PythonBackward
from sdbr.optimizers.plan import UpdatePlan
from sdbr.program import passes
from sdbr.program.buffers import BufferTable
from sdbr.program.builder import Builder
from sdbr.schedule.build import build, owned_copy
from sdbr.schedule.questions import taken_back
from sdbr.schedule.results import output_values, returned_as_is
from sdbr.schedule.schedule import Schedule
from sdbr.trace import values as v
from sdbr.trace.values import Value


class StepPlan:
    """The step program of one schedule and one optimizer.

    Attributes
    ----------
    program : Program
    table : BufferTable
    leaves : list of (Value, int)
        What is bound, with its slot; parameters that are updated included.
    outputs : list of (Value, int, tuple, dtype)
    views, hidden :
        See `HandedOut`.
    grads, extra_params : list of (Parameter, int, tuple, dtype)
        Parameters whose gradient the program writes, with slot, shape and dtype; parameters that
        are no leaves.
    taken_back : TakenBack or None
        What is put back of a run that met another answer.
    states : list of (int, ndarray)
        Slots and arrays of the optimizer's state.
    memory : Memory or None
        On which its runner runs it.
    """

    def __init__(self, schedule: Schedule, update: UpdatePlan, loss: Value, params):
        trace = schedule.trace
        self.schedule = schedule
        self.update = update
        self.memory = None
        self.table = table = BufferTable(MACHINES[schedule.backend])
        forward = Forward(trace, table, True, update.n_control, together=True)
        builder: Builder = forward.builder
        views = "views" in passes.enabled()
        outs = [value for value in output_values(trace) if not returned_as_is(value)]
        self.outputs, self.views, self.hidden = forward.outputs(outs, views)
        self.node_rows = node_rows(forward)  # for audits
        cut = len(builder.instructions)
        builder.label, builder.line = "loss gradient", ""
        builder.made.clear()  # gradients may take over the memory of backward rows only
        seed = builder.fill(loss.shape, loss.dtype, 1.0)
        by_param = {id(x.source): x for x in trace.values if x.kind == v.PARAMETER}
        wanted = [
            by_param[id(p)] for p in params if id(p) in by_param and by_param[id(p)].requires_grad
        ]
        rows = generate_backward(forward, builder, {loss.index: seed}, wanted, everything=True)
        for instruction in builder.instructions[cut:]:
            if isinstance(instruction.obj, PythonBackward):
                instruction.obj.of_the_loss = True
        self._gradients(builder, params, by_param, rows, views)
        self._update(forward, builder, by_param)
        self.program, _ = build(
            self._make_again(builder.instructions, cut),
            table,
            [],
            "step",
            schedule.reuse,
            passes.SECOND,
        )
        self.leaves = [(value, row.slot.index) for value, row in forward.bound]
        self.taken_back = taken_back(self.program, self.leaves)
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

    def _gradients(self, builder, params, by_param, rows, views) -> None:
        self.grads = []
        self._grad_rows = {}
        for p in params:
            value = by_param.get(id(p))
            row = None if value is None else rows.get(value.index)
            builder.label, builder.line = f"gradient of {p.name}", ""
            if row is None:
                # Chainer reallocates a cleared gradient as zeros.
                owned = self.table.owned(p.shape, p.dtype, f"gradient of {p.name}")
                builder.emit("fill", [], [owned], floats=(0.0,))
            else:
                owned = owned_copy(builder, row, f"gradient of {p.name}", views)
            self._grad_rows[id(p)] = owned
            self.grads.append((p, owned.slot.index, owned.shape, owned.dtype))

    def _update(self, forward, builder, by_param) -> None:
        update = self.update
        param_rows, grad_rows, state_rows = [], [], []
        self.states = []
        self.extra_params = []
        for i, (p, name) in enumerate(zip(update.params, update.names, strict=True)):
            value = by_param.get(id(p))
            if value is None:
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
        builder.label, builder.line = "update", ""
        update.emit(builder, param_rows, grad_rows, state_rows, 0)
