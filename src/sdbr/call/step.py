"""The whole step: forward, backward and update as one program."""

from __future__ import annotations

import time
import types
import weakref
from typing import NamedTuple

from sdbr.audit.calls import audited_step
from sdbr.audit.samples import node_rows
from sdbr.audit.settings import share_now
from sdbr.audit.sides import arrays_in
from sdbr.base.collector import collector_off
from sdbr.base.errors import StaleGraphError
from sdbr.call._call import StepRunner
from sdbr.functions.lowering import Forward, differentiable, generate_backward
from sdbr.optimizers.plan import UpdatePlan
from sdbr.program import passes
from sdbr.program.buffers import BufferTable
from sdbr.program.builder import Builder
from sdbr.schedule.plans import (
    build,
    hand_out,
    is_made,
    output_values,
    returned_as_is,
)
from sdbr.schedule.schedule import Schedule
from sdbr.static_graph import manager_of
from sdbr.trace import values as v
from sdbr.trace.values import Value

import chainer
import numpy as np
from chainer.variable import VariableNode


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
        See `Outputs`.
    grads, extra_params : list of (Parameter, int, tuple, dtype)
        Parameters whose gradient the program writes, with slot, shape and dtype; parameters that
        are no leaves.
    states : list of (int, ndarray)
        Slots and arrays of the optimizer's state.
    """

    def __init__(self, schedule: Schedule, update: UpdatePlan, loss: Value, params):
        start = time.perf_counter()
        trace = schedule.trace
        self.schedule = schedule
        self.update = update
        self.table = table = BufferTable()
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
        # Only the flat arrays and the slots are needed from here on.
        del self._grad_rows
        table.forget_rows()
        self.build_seconds = time.perf_counter() - start

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
                owned = hand_out(builder, row, f"gradient of {p.name}", views)
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


def resolve(lossfun):
    """The static callable behind a loss function: ``(decorated, owner)``, or None."""
    if isinstance(lossfun, chainer.Link):
        if "forward" in lossfun.__dict__:
            return None  # one of its own
        cls = type(lossfun)
        call = cls.__call__
        if hasattr(call, "_sdbr_function"):
            return call, lossfun
        forward = getattr(cls, "forward", None)
        plain = (
            call is chainer.Link.__call__ or hasattr(call, "_sdbr_link_call")
        ) and not lossfun._n_local_link_hooks
        return (forward, lossfun) if plain and hasattr(forward, "_sdbr_function") else None
    if isinstance(lossfun, types.MethodType) and hasattr(lossfun.__func__, "_sdbr_function"):
        return lossfun.__func__, lossfun.__self__
    return (lossfun, None) if hasattr(lossfun, "_sdbr_function") else None


def unsuitable(schedule: Schedule, optimizer, params) -> str | None:
    """Why forward, backward and update cannot be one program, or None."""
    trace = schedule.trace
    result = trace.result
    if not (isinstance(result, Value) and result.kind == v.RESULT and result.is_variable):
        return "the loss function does not return one Variable"
    if result.shape != () or not result.requires_grad or result.dtype.kind != "f":
        return "the loss is not a scalar that requires a gradient"
    if not getattr(optimizer, "_use_cleargrads", True):
        return "zerograds mode"
    if optimizer._loss_scale is not None or optimizer._loss_scaling_is_dynamic:
        return "loss scaling"
    if any(map(returned_as_is, output_values(trace))):
        return "an argument, a parameter or captured state is reported or assigned as it is"
    for node in trace.nodes:
        if node.own and node.accumulates and node.backprop:
            return f"the backward of {node.label} may write gradients itself"
    targets = {id(p) for p in params}
    outside = [
        value
        for value in trace.values
        if value.requires_grad
        and value.kind in (v.PARAMETER, v.ARGUMENT, v.ATTRIBUTE)
        and not (value.kind == v.PARAMETER and id(value.source) in targets)
    ]
    outside += [value for value in output_values(trace) if is_made(value)]
    lowered = schedule.forward.lowered if outside else None
    if outside and result.index in differentiable(lowered, {value.index for value in outside}):
        for value in outside:
            if result.index in differentiable(lowered, {value.index}):
                if value.kind == v.PARAMETER:
                    return "a parameter outside the optimizer wants a gradient, too"
                if is_made(value):
                    return "a Variable that the call makes and hands out wants a gradient"
                return "an argument or captured state wants a gradient"
    read = {(id(r.link), r.name) for r in trace.reads}
    for write in trace.writes:
        if (id(write.link), write.name) in read and any(
            value.requires_grad for value in v.values_in(write.value)
        ):
            return "state with a history passes from call to call"
    return None


class SpentCall(chainer.FunctionNode):
    """Creator of what a whole step leaves behind: its activations are gone."""

    def forward(self, inputs):
        raise StaleGraphError("a whole step cannot be applied again")

    def backward(self, indexes, grad_outputs):
        raise StaleGraphError(
            "the activations of this call were used up by the whole step that made it "
            "(optimizer.update with a loss function); call the loss function itself for a graph "
            "that can be differentiated again"
        )


class SpentNode(VariableNode):
    """Variable node of what a whole step leaves behind; makes its creator when asked."""

    _rank = 1

    @property
    def _creator_node(self):
        made = self.__dict__.get("_made", self)
        if made is self:
            made = SpentCall()
            # An input that wants a gradient, so that a backward gets as far as the error.
            made.start = chainer.Variable(np.zeros(()))
            made.inputs, made.outputs, made.rank = (made.start.node,), (lambda: self,), 0
            made._input_layouts, made._output_layouts, made._output_count = (None,), (None,), 1
            self.__dict__["_made"] = made
        return made

    @_creator_node.setter
    def _creator_node(self, creator):
        self.__dict__["_made"] = creator


def make_runner(
    manager, schedule: Schedule, optimizer, lossfun, update: UpdatePlan
) -> StepRunner | str:
    """A runner for steps of `optimizer` through `schedule`, or why there is none."""
    if update.reason is not None:
        return update.reason
    if not update.native:
        return "nothing to update natively"
    if manager.options.validate_every:
        return "validate_every compares forward and backward one by one"
    if update.loss_scale is not None:
        return "the parameters carry the loss scale of an earlier backward; Chainer resets it first"
    params = [p for p in optimizer.target.params() if p.array is not None]
    problem = unsuitable(schedule, optimizer, params)
    if problem is not None:
        return problem
    with collector_off():
        plan = StepPlan(schedule, update, schedule.trace.result, params)
    schedule.step_plans[id(optimizer)] = plan
    return StepRunner(manager, schedule, plan, optimizer, lossfun, SpentNode)


def whole_step(optimizer, lossfun, args, kwargs) -> bool:
    """Forward, backward and update of ``optimizer.update(lossfun, *args, **kwargs)`` in one call.

    Returns
    -------
    bool
        False when it is not that kind of step (the first call of a key among them): the caller
        then goes Chainer's way, in which each part is native by itself where it can be. A step
        that the runner of the optimizer's last one makes does not come here.
    """
    found = resolve(lossfun)
    if found is None or optimizer._hookable is None or not chainer.config.enable_backprop:
        return False
    call, owner = found
    manager = call.schedule_manager if owner is None else manager_of(owner, call)
    if manager is None:
        return False
    schedule = manager.ready_schedule(owner, args, kwargs)
    if schedule is None or not schedule.fits_parameters():
        return False
    runner = _runner(manager, schedule, optimizer, lossfun)
    if runner is None or not runner.learn(args, kwargs):
        return False
    if runner.is_overheard():
        manager.step_reason = "a Reporter of another class is told of reports before the update"
        return False
    optimizer.__dict__["_sdbr_runner"] = runner
    leaves = arrays_in((args, kwargs))
    if not runner.declines and manager.audit_is_due(schedule, leaves):
        return audited_step(runner, optimizer, lossfun, args, kwargs, leaves, share_now())
    return bool(runner.step(lossfun, args, kwargs))


def _runner(manager, schedule, optimizer, lossfun) -> StepRunner | None:
    """The runner of an optimizer for a schedule; made anew when its update changed."""
    # With the optimizer, so that they go when it goes.
    runners = optimizer.__dict__.get("_sdbr_runners")
    if runners is None or runners.owner() is not optimizer:
        runners = optimizer.__dict__["_sdbr_runners"] = _Runners(optimizer)
    known = runners.get(id(schedule))
    if isinstance(known, StepRunner) and known.update.check():
        return known
    update = optimizer.update_plan
    mode = (
        update,
        getattr(optimizer, "_use_cleargrads", True),
        optimizer._loss_scale,
        optimizer._loss_scaling_is_dynamic,
        update.loss_scale,
    )
    if isinstance(known, Refusal) and known.mode == mode:
        return None
    made = make_runner(manager, schedule, optimizer, lossfun, update)
    manager.step_reason = made if isinstance(made, str) else None
    runners.keep(schedule, Refusal(mode, schedule) if isinstance(made, str) else made)
    return None if isinstance(made, str) else made


class _Runners(dict):
    """The runners of one optimizer by id of the schedule, which they keep alive."""

    MOST = 16

    def __init__(self, optimizer):
        super().__init__()
        self.owner = weakref.ref(optimizer)

    def keep(self, schedule, runner) -> None:
        """Keep a runner or a refusal; those of forgotten schedules and the oldest go."""
        for key in [k for k, r in self.items() if r.schedule.gone]:
            del self[key]
        self.pop(id(schedule), None)
        while len(self) >= self.MOST:
            del self[next(iter(self))]
        self[id(schedule)] = runner


class Refusal(NamedTuple):
    """Remembers that a step cannot be whole while its mode stays."""

    mode: tuple
    schedule: Schedule
