"""The whole step: which ones are one program, and their runners."""

from __future__ import annotations

import types
import weakref
from typing import NamedTuple

from sdbr.audit.calls import audited_step
from sdbr.base.audit_share import share_now
from sdbr.base.collector import collector_off
from sdbr.base.errors import OtherAnswer
from sdbr.base.logs import logger
from sdbr.call._entry import is_static
from sdbr.call._table import Steps
from sdbr.call.find import Lookup, arrays_of
from sdbr.call.managers import has_mixin_call, is_owner, manager_of
from sdbr.call.misses import new_size, waits
from sdbr.call.step._runner import StepRunner
from sdbr.compat.splitting import watch_asked, watch_behind
from sdbr.lowering.backward import differentiable
from sdbr.optimizers.flow import clears_itself
from sdbr.optimizers.plan import UpdatePlan
from sdbr.optimizers.ranks.averaging import averaging_of
from sdbr.schedule.results import is_made, output_values, returned_as_is
from sdbr.schedule.schedule import Schedule
from sdbr.schedule.sightings import wants_whole
from sdbr.schedule.spent import spent_class
from sdbr.schedule.step import StepPlan
from sdbr.trace import values as v
from sdbr.trace.effects.sinks import fields_of
from sdbr.trace.values import Value

import chainer

#: In the place of a loss: forward, backward and update were one program.
MADE = object()

#: The attribute of an optimizer that holds the runners of its steps.
STEPS = "_sdbr_steps"

_log = logger("step")


def resolve(lossfun):
    """The static callable behind a loss function: ``(decorated, owner)``, or None."""
    if isinstance(lossfun, chainer.Link):
        if "forward" in lossfun.__dict__:
            return None  # one of its own
        cls = type(lossfun)
        call = cls.__call__
        if is_static(call):
            return call, lossfun
        forward = getattr(cls, "forward", None)
        plain = (
            call is chainer.Link.__call__ or getattr(call, "_sdbr_link_call", None) is call
        ) and not (lossfun._n_local_link_hooks or has_mixin_call(cls))
        return (forward, lossfun) if plain and is_static(forward) else None
    if isinstance(lossfun, types.MethodType) and is_static(lossfun.__func__):
        owner = lossfun.__self__
        return (lossfun.__func__, owner) if is_owner(owner, lossfun.__func__) else None
    return (lossfun, None) if is_static(lossfun) else None


def look_out(manager, loss, traced: bool) -> None:
    """Notice who holds the graph of a step that was not whole, or goes back through a traced one.

    Then the steps after it are not whole either.
    """
    if not isinstance(loss, chainer.Variable):
        return
    manager.graphs.note(loss, written_places(manager.static_schedule))
    if not traced:
        return
    reference = weakref.ref(manager)

    def told():
        manager = reference()
        if manager is not None:
            manager.keeps_graphs = True

    watch_behind(loss.node, told)


#: Why there is none where state goes on with its history.
STATE = ("captured state wants a gradient", "state with a history passes from call to call")


def unsuitable(schedule: Schedule, target: chainer.Link, clearing: str, params) -> str | None:
    """Why forward and backward cannot be one program, or None.

    `clearing` is ``'cleargrads'`` or ``'zerograds'``: how the optimizer clears the gradients of
    `target`.
    """
    trace = schedule.trace
    result = trace.result
    if not (isinstance(result, Value) and result.kind == v.RESULT and result.is_variable):
        return "the loss function does not return one Variable"
    if result.shape != () or not result.requires_grad or result.dtype.kind != "f":
        return "the loss is not a scalar that requires a gradient"
    if clears_itself(target, clearing):
        return f"the target has its own {clearing}"
    for node in trace.nodes:
        if node.own and node.accumulates and node.backprop:
            return f"the backward of {node.label} may write gradients itself"
    for value in differentiated(schedule, params):
        if is_made(value):
            return "a Variable that the call makes and hands out wants a gradient"
        if value.kind == v.ATTRIBUTE:
            return STATE[0]
    read = {(id(r.link), r.name) for r in trace.reads} - _cut(schedule)
    for write in trace.writes:
        if (id(write.link), write.name) in read and any(
            value.requires_grad and not returned_as_is(value) for value in v.values_in(write.value)
        ):
            return STATE[1]
    return None


def _cut(schedule: Schedule) -> set[tuple[int, str]]:
    """Attributes with a history of which the call takes the array alone (``self.h.array``)."""
    with_history = [
        value
        for value in schedule.trace.values
        if value.kind == v.ATTRIBUTE and value.is_variable and value.requires_grad
    ]
    if not with_history:  # else the forward is built, which whole steps do without
        return set()
    reached = {value.index for value in schedule.forward.differentiable}
    return {
        (id(value.source[0]), value.source[1])
        for value in with_history
        if value.index not in reached
    }


def differentiated(schedule: Schedule, params) -> list[Value]:
    """What the loss depends on and wants a gradient, besides parameters of the optimizer."""
    trace = schedule.trace
    result = trace.result
    targets = {id(p) for p in params}
    others = [
        value
        for value in trace.values
        if value.requires_grad
        and value.kind in (v.PARAMETER, v.ARGUMENT, v.ATTRIBUTE)
        and not (value.kind == v.PARAMETER and id(value.source) in targets)
    ]
    others += [value for value in output_values(trace) if is_made(value)]
    if not others:
        return []
    lowered = schedule.forward.lowered
    if result.index not in differentiable(lowered, {value.index for value in others}):
        return []
    return [x for x in others if result.index in differentiable(lowered, {x.index})]


def make_runner(
    manager, schedule: Schedule, optimizer, lossfun, update: UpdatePlan
) -> StepRunner | str:
    """A runner for steps of `optimizer` through `schedule`, or why there is none."""
    if update.in_step and update.device != schedule.device:
        return "the parameters lie on another device than the arguments"
    if manager.options.validate_every:
        return "validate_every compares forward and backward one by one"
    params = [p for p in optimizer.target.params() if p.array is not None]
    clearing = "cleargrads" if getattr(optimizer, "_use_cleargrads", True) else "zerograds"
    if _sets_what_updates_read(schedule, optimizer, params):
        return "the call sets what the update reads, as a rate"
    problem = unsuitable(schedule, optimizer.target, clearing, params)
    if problem is not None:
        return problem
    others = differentiated(schedule, params)
    with collector_off():
        steps = _steps_of(optimizer)
        scaled = optimizer._loss_scale is not None
        averaging = averaging_of(optimizer)
        loss = schedule.trace.result
        plan = StepPlan(schedule, update, loss, params, others, scaled, averaging)
        if plan.in_step and not _are_scaled(plan, scaled):
            return "the parameters carry the loss scale of an earlier backward; Chainer resets it"
        schedule.step_plans[id(optimizer)] = plan
        watch_asked()
        kind = spent_class(manager, schedule)
        return StepRunner(
            manager, schedule, plan, optimizer, lossfun, kind, steps.arena, steps.gradients
        )


def _sets_what_updates_read(schedule: Schedule, optimizer, params) -> bool:
    """Whether a replay writes, once it has run, to the optimizer, a rule or a hook."""
    if not schedule.trace.stores:
        return False
    rules = [p.update_rule for p in params if p.update_rule is not None]
    tables = [x._hookable for x in (optimizer, *rules)]
    tables = [hooks for x in tables for hooks in (x._pre_update_hooks, x._post_update_hooks)]
    hooks = [hook for table in tables for hook in table.values()]
    numbers = [getattr(x, "hyperparam", None) for x in (optimizer, *rules)]
    read = {id(getattr(x, "__dict__", x)) for x in (optimizer, *rules, *hooks, *numbers)}
    return any(id(fields_of(store.sink.owner)) in read for store in schedule.trace.stores)


def _are_scaled(plan: StepPlan, scaled: bool) -> bool:
    """Whether the update divides just the gradients that are going to be scaled."""
    return all(
        (parameter._loss_scale is not None) == scaled
        for parameter, _, _, _ in plan.grads
        if id(parameter) not in plan.unreached
    )


def written_places(schedule: Schedule | None) -> list[tuple[dict, str]]:
    """The attributes that a call writes: their dictionaries and names."""
    writes = () if schedule is None else schedule.trace.writes
    return [(write.link.__dict__, write.name) for write in writes]


def whole_step(optimizer, lossfun, args, kwargs) -> tuple[object, bool, object]:
    """Forward, backward and update of ``optimizer.update(lossfun, *args, **kwargs)`` in one call.

    A step that the runner of the optimizer's last one makes does not come here.

    Returns
    -------
    object
        `MADE`; else the loss, where it is not that kind of step (the first call of a key among
        them): the caller then goes on Chainer's way, in which each part is native by itself where
        it can be.
    bool
        Whether the call was traced, so that the next step may be one program.
    ScheduleManager or None
        That of the call, where `look_out` has to see to the graph of the step.
    """
    found = resolve(lossfun)
    if found is None or optimizer._hookable is None or not chainer.config.enable_backprop:
        return lossfun(*args, **kwargs), False, None
    call, owner = found
    manager = call.schedule_manager if owner is None else manager_of(owner, call)
    lookup = None if manager is None else manager.look_up(args, kwargs, _steps_of(optimizer).halted)
    if lookup is None:
        return lossfun(*args, **kwargs), False, None
    lookup.known = False  # to runners of steps, at most
    wants_whole(manager)
    if lookup.schedule is None and lookup.reason is None:
        new_size(manager, lookup, manager.statistics.calls + 1)
    if _made_whole(manager, lookup, optimizer, lossfun, args, kwargs):
        return MADE, False, None
    # Nothing but Chainer's own code is between a loss function that `resolve` knows and this.
    loss = manager.serve(args, kwargs, lookup)
    traced = lookup.schedule is None
    return loss, traced, manager if traced or manager.graphs.matter else None


def _made_whole(manager, lookup, optimizer, lossfun, args, kwargs) -> bool:
    """Make the step whole, by the schedule of the way that the call goes; False if there is none.

    Then nothing has happened.
    """
    steps = _steps_of(optimizer)
    last = steps.tried  # by this step, in vain
    if last is not None and last.met is not None:
        if last.manager is manager and last.schedule.key == lookup.key:
            manager.find_other(lookup, last.schedule, last.met)
        last.met = None
    for _ in range(1 + len(manager.schedules.get(lookup.key, ()))):
        if waits(manager, lookup, manager.statistics.calls + 1):
            return False
        runner = _ready_runner(manager, lookup.schedule, optimizer, lossfun)
        if runner is None or not steps.learn(runner, lossfun, args, kwargs):
            return False
        if runner.whole and runner.is_overheard():
            manager.step_reason = "a Reporter of another class is told of reports before the update"
            return False
        try:
            if _make(runner, optimizer, lossfun, args, kwargs, lookup):
                steps.made(runner)
                manager.graphs.forget()
                return True
            met, runner.met = runner.met, None
        except OtherAnswer as other:  # of an audit
            met = runner.schedule.after(other)
        if met is None:
            return False
        manager.find_other(lookup, runner.schedule, met)
    return False


def _ready_runner(manager, schedule: Schedule | None, optimizer, lossfun) -> StepRunner | None:
    """The runner for a call that `schedule` would replay; None where it cannot be a whole step."""
    if schedule is None or schedule.dynamic is not None or not schedule.fits_parameters():
        return None
    if manager.keeps_graphs:
        manager.step_reason = "the program goes back through the graph of a step after it"
        return None
    if manager.graphs.are_held(written_places(schedule)):
        manager.step_reason = (
            "the program holds the graphs of steps after they are made, as by losses.append(loss); "
            "keep float(loss.array) where nothing goes back through them"
        )
        return None
    runner = _runner(manager, schedule, optimizer, lossfun)
    if runner is None:
        manager.graphs.forget()  # there will be none that has to know
    return runner


def _make(runner: StepRunner, optimizer, lossfun, args, kwargs, lookup: Lookup) -> bool:
    """Make one step, audited if that is due; False when it declines: nothing has happened then."""
    leaves = arrays_of(lookup.leaves)
    if not runner.declines and runner.manager.audit_is_due(runner.schedule, leaves):
        runner.met = runner.manager.leaves_way(lookup)
        if runner.met is not None or not runner.whole or runner.averaging is not None:
            # Its call and its backward are audited: code of Python, and a collective, run once.
            return False
        try:
            return audited_step(runner, optimizer, lossfun, args, kwargs, leaves, share_now())
        finally:
            runner.release()
    return runner.step(lossfun, args, kwargs)


def _runner(manager, schedule, optimizer, lossfun) -> StepRunner | None:
    """The runner of an optimizer for a schedule; made anew when its update changed."""
    steps = _steps_of(optimizer)
    known = steps.known(schedule)
    if isinstance(known, StepRunner) and known.fits_optimizer():
        return known
    update = optimizer.update_plan
    mode = (
        update,
        getattr(optimizer, "_use_cleargrads", True),
        averaging_of(optimizer),
        optimizer._loss_scale is not None,
        update.loss_scale,
    )
    if isinstance(known, Refusal) and known.mode == mode:
        return None
    made = make_runner(manager, schedule, optimizer, lossfun, update)
    if isinstance(made, str):
        _log.info("%s: no whole step: %s", manager.name, made)
    else:
        _log.info("%s: whole step of %d ops", manager.name, len(made.plan.program))
    manager.step_reason = made if isinstance(made, str) else None
    kept = Refusal(mode, manager, schedule) if isinstance(made, str) else made
    steps.keep(manager, schedule, kept)
    return None if isinstance(made, str) else made


def _steps_of(optimizer) -> Steps:
    """The runners of an optimizer; with it, so that they go when it goes."""
    steps = optimizer.__dict__.get(STEPS)
    if steps is None or not steps.is_of(optimizer):
        steps = optimizer.__dict__[STEPS] = Steps(optimizer)
    return steps


def last_runner(optimizer) -> StepRunner | None:
    """The runner of an optimizer's last whole step, as far as is known."""
    steps = optimizer.__dict__.get(STEPS)
    return None if steps is None else steps.likely


class Refusal(NamedTuple):
    """Remembers that a step cannot be whole while its mode stays."""

    mode: tuple
    manager: object
    schedule: Schedule
