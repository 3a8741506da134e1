"""Audited calls and steps: who is asked for what, and what follows."""

from __future__ import annotations

from sdbr.audit.audit import Audit, Timer
from sdbr.audit.gradients import GradientAudit
from sdbr.audit.labels import leaves_an_array
from sdbr.audit.roots import roots_of
from sdbr.audit.samples import Watch
from sdbr.audit.sides import arrays_in
from sdbr.audit.state import fails
from sdbr.audit.verdict import Retraced, Unaudited, Verdict, alone
from sdbr.base.errors import SdbrError
from sdbr.devices.arrays import NO_MEMORY
from sdbr.trace.effects.sides import side


def audited_call(manager, schedule, function, leaves, floats, given, share, validated):
    """Serve one call of a static callable by define-by-run and by a replay.

    Parameters
    ----------
    manager : ScheduleManager
    schedule : Schedule
    function : callable
        With the owner bound.
    leaves, floats : list
        Of the arguments.
    given : tuple
        ``(args, kwargs)``.
    share : float
        What audits may cost.
    validated : bool
        Whether a difference is an error (``validate_every``).

    Returns
    -------
    object
        What the call returned: the replay's, or define-by-run's if they differ.
    """
    _ = schedule.forward  # building it is no part of an audit
    reference = None

    def replay(closely: bool):
        reference.closely = closely
        return manager.replay(schedule, leaves, floats, reference)

    with Timer(manager.audits, share, schedule):
        if _cannot_be_compared(manager, schedule, leaves):
            return manager.replay(schedule, leaves, floats)
        places = manager, schedule, given
        try:
            audit = Audit(
                manager, schedule, roots_of(*places), lambda a, k: function(*a, **k), *given
            )
            reference = GradientAudit(audit, lambda: roots_of(*places, gradients=True), validated)
            verdict = audit.compare(replay)
        except Unaudited as e:
            _tell_of_memory(manager, schedule, e)
            with alone(e):
                return manager.replay(schedule, leaves, floats)
        except Retraced as e:
            manager.statistics.define_by_run_calls += 1
            if e.for_good:
                manager.drop(schedule.key, schedule)
            verdict = e.verdict
        else:
            if schedule.due is not None and verdict.compared:
                schedule.due.audited(arrays_in(leaves))
            _judge(manager, schedule, audit, verdict, validated)
            if verdict.compared and not verdict.problem:
                reference.handed_out(verdict.outcome)
            else:
                reference.drop()
            audit.forget()
    return _conclude(verdict)


def audited_step(runner, optimizer, lossfun, args, kwargs, leaves, share) -> bool:
    """Make one whole step by define-by-run and natively; True: it is made.

    Parameters
    ----------
    runner : StepRunner
    optimizer : chainer.GradientMethod
    lossfun, args, kwargs :
        As given to ``optimizer.update``.
    leaves : list of ndarray
    share : float
    """
    manager, schedule = runner.manager, runner.schedule

    def plain(args, kwargs):
        def loss_of(*args, **kwargs):
            loss = lossfun(*args, **kwargs)
            side().backward_begins()
            return loss

        return optimizer._sdbr_base.update(optimizer, loss_of, *args, **kwargs)

    def replay(closely: bool):
        plan = runner.plan
        watch = Watch(plan.program, runner.memory, plan.node_rows, closely)
        runner.executable.watch = audit.watch = watch
        told = audit.plain.error
        runner.told = told if type(told) is UserWarning else None
        try:
            if not runner.step(lossfun, args, kwargs, True):
                raise Declined
        finally:
            runner.executable.watch = runner.told = None

    with Timer(manager.audits, share, schedule):
        if _cannot_be_compared(manager, schedule, leaves):
            return runner.step(lossfun, args, kwargs, True)
        filled = not getattr(optimizer, "_use_cleargrads", True)  # gradients, with zeros, in place
        roots = roots_of(manager, schedule, (args, kwargs), optimizer, filled)
        try:
            audit = Audit(manager, schedule, roots, plain, args, kwargs, gradients=True)
            verdict = audit.compare(replay)
        except Unaudited as e:
            _tell_of_memory(manager, schedule, e)
            with alone(e):
                return runner.step(lossfun, args, kwargs, True)
        except Retraced as e:
            manager.statistics.calls += 1
            manager.statistics.define_by_run_calls += 1
            runner.declines = True  # its parts are audited as calls of their own
            verdict = e.verdict
        else:
            if verdict.compared:
                schedule.due.audited(leaves)
            _judge(manager, schedule, audit, verdict, False)
    _conclude(verdict)
    return True


class Declined(Exception):
    """The native step declines this call; internal."""


def _cannot_be_compared(manager, schedule, leaves) -> bool:
    """Whether define-by-run would read what is nobody's; counted."""
    if schedule.device is None:
        return False
    try:
        is_wrong = leaves_an_array(schedule.trace, leaves)
    except NO_MEMORY:
        is_wrong = True
    manager.audits.inconclusive += is_wrong
    return is_wrong


def _tell_of_memory(manager, schedule, unaudited: Unaudited) -> None:
    """Say, once, that an audit had no memory; it is not tried again before others are due."""
    manager.audits.inconclusive += 1
    schedule.due.pending = False
    where = "the host" if schedule.device is None else f"GPU {schedule.device}"
    manager.warn(
        "memory of audits",
        f"{manager.name}: a replay was not compared with define-by-run, since {where} has no "
        f"memory for both: {unaudited.error}. With chainer.config.sdbr_audit = 'off' none is.",
    )


def _judge(manager, schedule, audit: Audit, verdict: Verdict, validated: bool) -> None:
    if not verdict.problem:
        if verdict.outcome.error is None and verdict.compared:
            manager.audits.passes(schedule)
        return
    raises = validated or manager.options.on_dynamic == "raise"
    if raises:
        audit.before.put_back(verdict.outcome.changes)
        if isinstance(verdict.error, SdbrError):
            raise verdict.error
    fails(manager, schedule, verdict.problem, verdict.line, validated)


def _conclude(verdict: Verdict):
    if verdict.outcome.error is not None:
        raise verdict.outcome.error
    return verdict.outcome.result
