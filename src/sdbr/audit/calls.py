"""Audited calls and steps: who is asked for what, and what follows."""

from __future__ import annotations

from sdbr.audit.audit import Audit, Retraced, Timer, Verdict, roots_of
from sdbr.audit.gradients import GradientAudit
from sdbr.audit.samples import Watch
from sdbr.audit.sides import arrays_in
from sdbr.audit.state import fails
from sdbr.base.errors import SdbrError
from sdbr.trace.effects.sides import side


def audited_call(manager, schedule, function, owner, leaves, floats, given, share, validated):
    """Serve one call of a static callable by define-by-run and by a replay.

    Parameters
    ----------
    manager : ScheduleManager
    schedule : Schedule
    function : callable
        With the owner bound.
    owner : chainer.Link or None
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
    with Timer(manager.audits, share):
        roots = roots_of(manager, schedule, owner, given)
        audit = Audit(
            manager, schedule, roots, lambda args, kwargs: function(*args, **kwargs), *given
        )
        reference = GradientAudit(
            audit, lambda: roots_of(manager, schedule, owner, given, gradients=True), validated
        )
        try:
            verdict = audit.compare(lambda: manager.replay(schedule, leaves, floats, reference))
        except Retraced as e:
            manager.statistics.define_by_run_calls += 1
            if e.for_good:
                manager.drop(schedule.key, schedule)
            return _conclude(e.verdict)
        if schedule.due is not None:
            schedule.due.audited(arrays_in(leaves))
        _judge(manager, schedule, audit, verdict, validated)
        if not verdict.problem:
            reference.handed_out(verdict.outcome)
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
    owner = None if manager.owner is None else manager.owner()

    def plain(args, kwargs):
        def loss_of(*args, **kwargs):
            loss = lossfun(*args, **kwargs)
            side().backward_begins()
            return loss

        return optimizer._sdbr_base.update(optimizer, loss_of, *args, **kwargs)

    def replay():
        plan = runner.plan
        runner.executable.watch = watch = Watch(plan.program, runner.memory, plan.node_rows)
        audit.watch = watch
        try:
            if not runner.step(lossfun, args, kwargs, True):
                raise Declined
        finally:
            runner.executable.watch = None

    with Timer(manager.audits, share):
        roots = roots_of(manager, schedule, owner, (args, kwargs), optimizer)
        audit = Audit(manager, schedule, roots, plain, args, kwargs, gradients=True)
        try:
            verdict = audit.compare(replay)
        except Retraced as e:
            manager.statistics.define_by_run_calls += 1
            runner.declines = True  # its parts are audited as calls of their own
            _conclude(e.verdict)
            return True
        schedule.due.audited(leaves)
        _judge(manager, schedule, audit, verdict, False)
    _conclude(verdict)
    return True


class Declined(Exception):
    """The native step declines this call; internal."""


def _judge(manager, schedule, audit: Audit, verdict: Verdict, validated: bool) -> None:
    if not verdict.problem:
        if verdict.outcome.error is None:
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
