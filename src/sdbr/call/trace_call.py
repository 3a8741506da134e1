"""Trace one call: run it define-by-run, record it, and make a schedule of the record."""

from __future__ import annotations

import time

from sdbr.backends import ON_GPU
from sdbr.base.collector import collector_off
from sdbr.base.errors import NotStaticError
from sdbr.base.logs import logger
from sdbr.base.reasons import Reason, Remedy
from sdbr.call._due import Due
from sdbr.call.cache_key import layouts_of, unusual_value
from sdbr.call.find import Lookup, arrays_of, note_define_by_run
from sdbr.devices.arrays import device_of
from sdbr.devices.generators import can_be_set_back
from sdbr.functions.registry import is_transparent
from sdbr.lowering.caught import asked_after_a_draw, caught_error
from sdbr.lowering.node_attributes import settle_scalars, structural_arrays
from sdbr.schedule.schedule import Schedule
from sdbr.schedule.sightings import look
from sdbr.trace.code.frames import user_line
from sdbr.trace.code.reading import link_of
from sdbr.trace.code.sizes import asks_no_size
from sdbr.trace.effects.changes import changed_number, why_never_replayed
from sdbr.trace.effects.stores import Stores
from sdbr.trace.forgotten import frozen
from sdbr.trace.guards.guards import Guards
from sdbr.trace.guards.seen import Seen, what_was_seen
from sdbr.trace.recorder import Recorder
from sdbr.trace.structure import callables_in
from sdbr.trace.values import Trace
from sdbr.trace.watch.reads import Reads
from sdbr.trace.watch.watching import obstacle

import chainer
from chainer.backends import cuda

_traces, _dynamic = logger("traces"), logger("dynamic")


def trace_call(manager, lookup: Lookup, function, given: tuple):
    """Run a call define-by-run and record it; the result is that of this call.

    Parameters
    ----------
    manager : ScheduleManager
        It gets the schedule.
    lookup : Lookup
    function : callable
        With the owner bound.
    given : tuple
        ``(args, kwargs)``.
    """
    reason = obstacle()
    if reason is not None:
        manager.warn(
            "watch", f"{manager.name}: calls cannot be traced, and run define-by-run: {reason}"
        )
        note_define_by_run(manager, f"it cannot be traced: {reason}")
        return function(*given[0], **given[1])
    with collector_off():
        return _traced(manager, lookup, function, given)


def _traced(manager, lookup: Lookup, function, given: tuple):
    recorder = Recorder(is_transparent)
    try:
        return _make_schedule(recorder, manager, lookup, function, given)
    finally:
        recorder.close()


def _make_schedule(recorder: Recorder, manager, lookup: Lookup, function, given: tuple):
    line, start = user_line(), time.perf_counter()
    recorder.captured.callables = {id(thing) for _, thing in callables_in(lookup.structure)}
    _settle(recorder, manager, lookup)
    recorder.floats.free = manager.missed.free.to_try(lookup.key, list(manager.schedules))
    result = _recorded(recorder, function, lookup, given)
    trace = recorder.trace
    if recorder.reads.unseen is not None:
        # Another thread has taken what was free a moment ago; the next call is traced.
        note_define_by_run(manager, f"it cannot be traced: {recorder.reads.unseen}")
        return result
    settle_scalars(trace)
    seen = what_was_seen(recorder, given, callables_in(lookup.structure))
    trace.dynamic = trace.dynamic or changed_number(trace, recorder)
    if lookup.key.device is not None:  # of a GPU, errors are told when it is too late
        trace.dynamic = trace.dynamic or caught_error(trace)
    asked = None if lookup.key.device is None else asked_after_a_draw(trace)
    if asked is not None and not can_be_set_back():
        trace.dynamic = trace.dynamic or asked
    manager.statistics.traces += 1
    if met_elsewhere(manager, lookup, recorder) or disturbed(manager, recorder):
        return result  # the next call is traced where they lie, or while others are quiet
    if recorder.nodes.groups and (
        trace.dynamic is not None or recorder.nodes.not_forgotten is not None
    ):
        reason = frozen(recorder)
        if reason is None:
            # The next call is traced with ``F.forget`` as it is.
            manager.through = False
            return result
        trace.dynamic = reason
    _free(manager, lookup, recorder)
    schedule = _schedule_of(manager, lookup, trace)
    _watch(schedule, recorder.reads, seen, link_of(function))
    _settle_changes(manager, schedule, recorder.outside.stores)
    schedule.due = _due(manager, schedule, lookup)
    schedule.line = line
    schedule.created, schedule.traced_at = time.time(), manager.statistics.calls
    schedule.trace_seconds = time.perf_counter() - start
    manager.add(schedule, lookup.floats)
    look(manager)
    _tell(manager, schedule)
    return result


#: Calls of one manager that are traced only to learn where their arrays lie.
_MOST_SOUGHT = 8


def met_elsewhere(manager, lookup: Lookup, recorder: Recorder) -> bool:
    """Whether a call that was given no array of CuPy runs on another GPU, or none, than thought.

    The manager then knows better.
    """
    if any(device_of(x) is not None for x in arrays_of(lookup.leaves)):
        return False
    if recorder.values.met == lookup.key.device or manager.missed.sought == _MOST_SOUGHT:
        return False
    owner = None if manager.owner is None else manager.owner()
    if isinstance(getattr(owner, "device", None), cuda.GpuDevice):
        return False
    if (manager.options.backend or chainer.config.sdbr_backend) not in ("auto", ON_GPU):
        return False
    manager.missed.gpu = recorder.values.met
    manager.missed.sought += 1
    return True


#: Calls of one manager that are traced again because other threads changed something meanwhile.
_MOST_DISTURBED = 4


def disturbed(manager, recorder: Recorder) -> bool:
    """Whether another thread has changed something in the meantime, and the next call may do."""
    if recorder.outside.changed_elsewhere is None or recorder.trace.dynamic is not None:
        return False
    if manager.missed.disturbed == _MOST_DISTURBED:
        recorder.trace.dynamic = Reason(
            f"{recorder.outside.changed_elsewhere} changed during the call, which does not "
            "assign it: another thread did",
            Remedy.OTHER_THREADS,
        )
        return False
    manager.missed.disturbed += 1
    return True


def _recorded(recorder: Recorder, function, lookup: Lookup, given: tuple):
    """What the call returns; what it has kept is plain by then, also where it raises."""
    try:
        result = recorder.run(function, lookup.structure, lookup.leaves, given=given)
    except BaseException:
        recorder.leave_plain()
        raise
    recorder.views.take_back_views()
    recorder.ints.take_back_counters()
    return result


def _settle(recorder: Recorder, manager, lookup: Lookup) -> None:
    """Tell the recorder what the options ask of it."""
    recorder.gpu = lookup.key.device
    for group in list(manager.schedules.values()):
        for schedule in group[-1:]:
            manager.missed.moving |= schedule.guards.moved(manager.missed.moving)
    recorder.moving = manager.missed.moving
    recorder.lasting.differentiated_twice = manager.options.enable_double_backprop
    recorder.nodes.through = manager.through and not recorder.lasting.differentiated_twice


def _free(manager, lookup: Lookup, recorder: Recorder) -> None:
    """The key of a trace that followed whole numbers among the arguments."""
    if not recorder.floats.free:
        return
    before, key = (
        lookup.key,
        manager.missed.free.settle(lookup.key, recorder.floats.free, recorder.trace),
    )
    lookup.key = key
    if key == before:
        return
    for other, group in list(manager.schedules.items()):
        if other != key and manager.missed.free.shortened(other) == key:
            for schedule in list(group):  # no call has that key any more
                manager.drop(other, schedule)


def _schedule_of(manager, lookup: Lookup, trace: Trace) -> Schedule:
    """The schedule of a trace, before its guards."""
    if trace.asks_layout and not manager.asks_layout:
        manager.asks_layout = True
        lookup.key = lookup.key._replace(layouts=layouts_of(lookup.leaves))
    keep_graph = chainer.config.enable_backprop or any(node.backprop for node in trace.nodes)
    schedule = Schedule(lookup.key, trace, keep_graph, lookup.backend, manager.options.memory)
    if trace.dynamic is None:
        trace.dynamic = unusual_value(trace)
        if trace.dynamic is not None:
            # Parameters and attributes may get another dtype: such a trace settles nothing.
            trace.quiet = True
            text = trace.dynamic.text
            manager.warn(text, f"{manager.name}: {text}: such calls run define-by-run")
    schedule.double = manager.options.enable_double_backprop
    schedule.dynamic = trace.dynamic
    return schedule


def _watch(schedule: Schedule, reads: Reads, seen: Seen | None, owner) -> None:
    """Give a schedule its guards, and say whether others may be built of it."""
    ran, reads.ran = reads.ran, []
    schedule.asks_no_size = schedule.dynamic is None and asks_no_size(ran, owner)
    # Of one that is dynamic and quiet, what made it so is looked at alone.
    watches = schedule.dynamic is None or not schedule.trace.quiet
    guards = schedule.guards = Guards(schedule.trace, seen if watches else None)
    if watches:
        guards.watch_seen(seen)
    for _, array in structural_arrays(schedule.trace):
        guards.watch_contents(array)


def _due(manager, schedule: Schedule, lookup: Lookup) -> Due | None:
    """When a schedule is audited; one that is not replayed never is."""
    if schedule.dynamic is not None:
        return None
    return Due(manager.audits.budget, arrays_of(lookup.leaves), schedule.device)


def _settle_changes(manager, schedule: Schedule, stores: Stores) -> None:
    """Make a call dynamic that changes what it reads each time: no schedule of it ever fits."""
    changed, left = schedule.guards.changed, manager.missed.left
    if not changed:
        return
    before = list(manager.schedules.get(schedule.key, ()))
    if schedule.dynamic is not None:
        # Once more, as it may have made something that is there by then.
        if any(s.dynamic is not None for s in before):
            schedule.guards.forget_changes()
        return
    reason = why_never_replayed(changed, [s.guards.changed for s in before], left, stores)
    left.update(changed)
    if reason is None:
        return
    schedule.dynamic = schedule.trace.dynamic = reason
    schedule.guards.forget_changes()
    for other in before:
        if other.guards.changed and other.dynamic is None:
            manager.drop(schedule.key, other)


def _tell(manager, schedule: Schedule) -> None:
    """Log a trace; warn of a call that is not static, or raise.

    Raises
    ------
    NotStaticError
        With ``on_dynamic='raise'``.
    """
    trace = schedule.trace
    if not trace.quiet:
        manager.keep_in_mind(schedule)
    if trace.dynamic is not None and not trace.quiet:
        message = manager.dynamic_message(trace.dynamic)
        _dynamic.info("%s", message)
        if manager.options.on_dynamic == "raise":
            raise NotStaticError(message)
        manager.warn("dynamic", message + " It runs define-by-run from now on.")
    _traces.info(
        "%s: traced %d nodes in %.1f ms at %s",
        manager.name,
        len(trace.nodes),
        schedule.trace_seconds * 1e3,
        schedule.line,
    )
