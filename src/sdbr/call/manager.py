"""The cache of schedules of one decorated callable; orchestrates trace, build and replay."""

from __future__ import annotations

import collections
import copy
import time
import types
import warnings
import weakref

from sdbr.audit.calls import audited_call
from sdbr.audit.gradients import GradientAudit
from sdbr.audit.state import Audits
from sdbr.base.audit_share import share_now
from sdbr.base.collector import collector_off
from sdbr.base.errors import NotStaticError, OtherAnswer, Retrace, SdbrWarning, SideExit
from sdbr.base.forks import reentrant_lock
from sdbr.base.logs import listen
from sdbr.base.options import Options
from sdbr.base.reasons import Reason
from sdbr.call._entry import PlainCall, is_plain
from sdbr.call._replay import Replay
from sdbr.call._runners import CallRunner
from sdbr.call._table import Table
from sdbr.call._watching import call_watcher
from sdbr.call.cache_key import CallKey, ConfigKeys
from sdbr.call.exits.resumed import finished
from sdbr.call.find import Lookup, arrays_of, look_up, note_define_by_run, off_reason
from sdbr.call.misses import SWEPT, BackOff, Misses, new_size, remember_plain, waits, warn_full
from sdbr.call.second import CallSnapshot
from sdbr.call.trace_call import trace_call
from sdbr.program._memory import claim
from sdbr.schedule._statistics import Statistics
from sdbr.schedule.families import Families
from sdbr.schedule.instance import Instance, spare_instance
from sdbr.schedule.kept import KeptGraphs
from sdbr.schedule.schedule import Schedule
from sdbr.schedule.ways import difference, in_turn, number_of
from sdbr.trace.code.frames import stack_level
from sdbr.trace.effects.sides import plain_now
from sdbr.trace.recorder import traced_by_caller


class ScheduleManager:
    """The schedules of a method and a link, of one bound to another object, or of a function.

    Attributes
    ----------
    schedules : dict
        Cache key -> list of Schedule (they differ in their guards), least recently used first.
    statistics : Statistics
    owner : weakref or None
        The link; copies and unpickled links start with an empty manager of their own.
    audits : Audits
        Replays that ran beside define-by-run.
    misses : list of (str, str)
        Why keys were new: the part of the key that differed, and the user's line.
    define_by_run_reasons : collections.Counter
        Why calls ran define-by-run, and how often.
    """

    def __init__(self, function, options: Options, owner=None, name: str = ""):
        self.function = function
        self.options = options
        self.owner = None if owner is None else weakref.ref(owner)
        self.name = name
        self.schedules: dict[CallKey, list[Schedule]] = {}
        self.statistics = Statistics()
        self.audits = Audits()
        self.missed = Misses()
        self.config_keys = ConfigKeys()
        self.define_by_run_reasons: collections.Counter = collections.Counter()
        self._used: Schedule | None = None
        self.families = Families()
        self.runners = Table()
        self.plain: list[PlainCall] = []
        self.step_reason: str | None = None
        self.is_outside = False  # whether its calls are losses that nobody has decorated
        self.keeps_graphs = False  # whether somebody goes back through steps after they are made
        self.graphs = KeptGraphs()
        self.asks_layout = False  # whether a call has learnt how its arguments lie in memory
        self.through = True  # whether the functions inside of ``F.forget`` are traced
        self._warned: set[str] = set()
        self.lock = reentrant_lock(self._after_fork)
        listen(options.verbosity_level)

    def __reduce__(self):
        return _nothing, ()

    def __deepcopy__(self, memo):
        return None

    __copy__ = None

    # --- a call ----------------------------------------------------------------------------
    def call(self, args, kwargs, lookup: Lookup | None = None):
        """Serve one call of the decorated callable; `lookup` is what is known of it already."""
        watcher = call_watcher()
        if watcher is None:
            return self._call(args, kwargs, lookup)
        start = time.perf_counter()
        try:
            return self._call(args, kwargs, lookup)
        finally:
            watcher(self, start, time.perf_counter() - start)

    def serve(self, args: tuple, kwargs: dict, lookup: Lookup | None = None):
        """A call from inside, by the compiled path where it is like one before."""
        result = self.runners.run(args, kwargs)
        return self.call(args, kwargs, lookup) if result is NotImplemented else result

    def look_up(self, args, kwargs, known: bool) -> Lookup | None:
        """What a call would be, for one who may serve it in another way; None: define-by-run."""
        if plain_now() or traced_by_caller() or off_reason(self.options) is not None:
            return None
        if self.plain and is_plain(self.plain, args, kwargs):
            return None
        return look_up(self, args, kwargs, known)

    def _call(self, args, kwargs, lookup):
        function = types.MethodType(self.function, self.owner()) if self.owner else self.function
        if plain_now() or traced_by_caller():
            return function(*args, **kwargs)  # the outermost static chain wins
        self.statistics.calls += 1
        reason = off_reason(self.options)
        if reason is None:
            if lookup is None:
                lookup = look_up(self, args, kwargs, self.runners.halted)
            reason = lookup.reason
            if lookup.warning is not None:
                self.warn(*lookup.warning)
        if reason is not None:
            return self._define_by_run(function, args, kwargs, reason)
        result = self._replayed(lookup, function, args, kwargs)
        if result is not NotImplemented:
            return result
        schedule = lookup.schedule
        if schedule is not None:
            if self.options.on_dynamic == "raise" and not schedule.trace.quiet:
                raise NotStaticError(self.dynamic_message(schedule.dynamic))
            schedule.usage.count(self.statistics)
            remember_plain(self, lookup, args, kwargs)
            return self._define_by_run(function, args, kwargs, schedule.dynamic.text)
        if lookup.missed is None:
            new_size(self, lookup, self.statistics.calls)
            result = self._replayed(lookup, function, args, kwargs)
            if result is not NotImplemented:
                return result
        what, reason = lookup.missed
        if reason is not None:
            return self._define_by_run(function, args, kwargs, reason)
        try:
            return trace_call(self, lookup, function, (args, kwargs))
        finally:
            with self.lock:
                self.back_off.ended(what)

    def _replayed(self, lookup: Lookup, function, args, kwargs):
        """The result of a replay; NotImplemented where the schedule of `lookup` cannot be one.

        What no longer fits is dropped, and the next one tried.
        """
        leaves, floats = lookup.leaves, lookup.floats
        while (schedule := lookup.schedule) and not waits(self, lookup, self.statistics.calls):
            if schedule.dynamic is not None:
                if schedule.fits_parameters():
                    return NotImplemented
                self._drop_and_find(lookup)
                continue
            try:
                every = self.options.validate_every
                validated = bool(every) and (schedule.usage.replays + 1) % every == 0
                if validated or self.audit_is_due(schedule, leaves):
                    met = self.leaves_way(lookup)
                    if met is not None:
                        self.find_other(lookup, schedule, met)
                        continue
                    result = audited_call(
                        self, schedule, function, leaves, floats, (args, kwargs), share_now(),
                        validated,
                    )  # fmt: skip
                else:
                    start = time.perf_counter()
                    result = self.replay(schedule, leaves, floats)
                    self.audits.budget.add(time.perf_counter() - start, share_now())
                    if schedule.due is not None:
                        schedule.due.count.served()
                if not (every or schedule.gone or lookup.known):
                    self._remember(schedule, args, kwargs)
                return result
            except Retrace:
                self._drop_and_find(lookup)
            except OtherAnswer as other:
                self.find_other(lookup, schedule, schedule.after(other))
            except SideExit as side_exit:
                left = side_exit
                break
        else:
            return NotImplemented
        return finished(self, schedule, left, args, kwargs)

    def leaves_way(self, lookup: Lookup) -> tuple[int, ...] | None:
        """The answers of a call that goes another way; asked before an audit, which takes long."""
        return self._replay_of(lookup.schedule).leaves_way(lookup.leaves, lookup.floats)

    def find_other(self, lookup: Lookup, schedule: Schedule, answers: tuple[int, ...]) -> None:
        """The call goes another way than `schedule`: look for one that gives these answers."""
        most = len(self.schedules.get(lookup.key, ())) + 1
        goes_on = lookup.turns(answers, difference(schedule, answers), most)
        lookup.schedule = self.find(lookup.key, lookup.floats, answers) if goes_on else None

    def _drop_and_find(self, lookup: Lookup) -> None:
        self.drop(lookup.key, lookup.schedule)
        lookup.known, lookup.schedule = False, self.find(lookup.key, lookup.floats, lookup.answers)

    # --- schedules -------------------------------------------------------------------------
    def find(self, key: CallKey, floats, answers: tuple[int, ...] = ()) -> Schedule | None:
        """The schedule of `key` whose guards hold.

        Parameters
        ----------
        key : CallKey
        floats : list of float
            Those among the arguments.
        answers : tuple of int
            What is known of the way of the call.
        """
        with self.lock:
            candidates = self.schedules.get(key)
            if candidates:
                self.schedules[key] = self.schedules.pop(key)  # last, as the one used last
                turn = in_turn(candidates, answers)
                for schedule in turn:
                    if schedule.guards.accept(floats) and schedule.guards.hold():
                        return schedule
                # Twice dynamic, each time with other attributes: it will not get better.
                dynamic = [s for s in turn[::-1] if s.dynamic is not None and not s.trace.quiet]
                if len(dynamic) > 1:
                    return dynamic[-1]
            return self._on_another_backend(key, floats, answers)

    def _on_another_backend(self, key: CallKey, floats, answers) -> Schedule | None:
        """A schedule whose programs another backend runs, now for the backend of `key`."""
        for other_key, candidates in list(self.schedules.items()):
            if other_key.backend == key.backend or other_key._replace(backend=key.backend) != key:
                continue
            for other in reversed(candidates):
                if not other.follows(answers):
                    continue
                if not (other.guards.accept(floats) and other.guards.hold()):
                    continue
                schedule = other.on_backend(key)
                self.take_up(schedule)
                return schedule
        return None

    @property
    def static_schedule(self) -> Schedule | None:
        """The schedule that served the last call."""
        every = [schedule for group in list(self.schedules.values()) for schedule in list(group)]
        # Calls on the compiled path, and whole steps, count their use and nothing else.
        return max(every, key=lambda schedule: schedule.usage.last_call, default=self._used)

    def drop(self, key, schedule) -> None:
        """Forget a schedule that no longer fits."""
        with self.lock:
            candidates = self.schedules.get(key, [])
            if schedule in candidates:
                candidates.remove(schedule)
            if not candidates:
                self.schedules.pop(key, None)
            self.runners.forget(schedule)
            self.plain = []
            schedule.gone = True

    def add(self, schedule: Schedule, floats) -> None:
        """Take up a schedule that the present call was traced for, with these floats."""
        schedule.usage.count(self.statistics)
        with self.lock:
            same = self.schedules.setdefault(schedule.key, [])
            begun = schedule.created - schedule.trace_seconds
            for other in [s for s in same if s.created > begun and s.usage.served == 1]:
                if (
                    other.answers == schedule.answers
                    and other.guards.accept(floats)
                    and other.guards.hold()
                ):
                    self.drop(schedule.key, other)  # traced meanwhile by another thread
                    same = self.schedules.setdefault(schedule.key, [])
            same.append(schedule)
            self.plain = []
            self._evict()
        self._used = schedule

    def take_up(self, schedule: Schedule) -> None:
        """Take up a schedule that was made of others, for the present call."""
        schedule.usage.last_call = self.statistics.calls
        self.schedules.setdefault(schedule.key, []).append(schedule)
        self._evict()

    def keep_in_mind(self, schedule: Schedule) -> None:
        """Remember whether and where tracing such a call was of no use."""
        if schedule.dynamic is not None or not schedule.guards.changed:  # else it is not known yet
            self.missed.traced(schedule.key, schedule.trace.dynamic)

    def dynamic_message(self, reason: Reason) -> str:
        """What users are told of a call that is not static."""
        at = reason.line and f" at {reason.line}"
        return f"{self.name}: the call is not static: {reason.text}{at}. {reason.remedy.value}"

    def least_used(self) -> int | None:
        """For how many calls the schedule that would have to go was not used; None: none has to."""
        if not self.options.minimize_cache_size or self._n_schedules() < self.options.max_schedules:
            return None
        last = min(s.usage.last_call for group in self.schedules.values() for s in group)
        return self.statistics.calls - last

    def sweep(self) -> None:
        """Drop schedules that served no call but the one traced for them, a while ago."""
        if not self.options.minimize_cache_size:
            return
        now = self.statistics.calls
        for key, group in list(self.schedules.items()):
            for schedule in list(group):
                usage = schedule.usage
                if usage.served <= 1 and not schedule.waited and now - usage.last_call > SWEPT:
                    self.drop(key, schedule)

    def _n_schedules(self) -> int:
        return sum(map(number_of, list(self.schedules.values())))

    @property
    def misses(self) -> list[tuple[str, str]]:
        """Why keys were new; the newest 100."""
        return self.missed.entries

    @property
    def back_off(self) -> BackOff:
        """Which misses are traced."""
        return self.missed.back_off

    def _evict(self) -> None:
        if not self.options.minimize_cache_size:
            return
        while self._n_schedules() > self.options.max_schedules:
            warn_full(self)
            # Calls on the compiled path do not touch the order of the dictionary.
            every = [(key, s) for key, group in self.schedules.items() for s in group]
            self.drop(*min(every, key=lambda entry: entry[1].usage.last_call))

    # --- replay ----------------------------------------------------------------------------
    def new_instance(self, schedule: Schedule) -> Instance:
        """One more set of activations, marked as running."""
        instance = Instance(schedule, self.runners.arena)
        claim(instance)
        with self.lock:
            schedule.instances.append(instance)
        return instance

    def audit_is_due(self, schedule: Schedule, leaves) -> bool:
        """Whether the next replay has to run beside define-by-run."""
        if self.audits.off or schedule.due is None:
            return False
        if schedule.family is not None and not schedule.family.proven:
            return True
        share = share_now()
        return bool(share) and schedule.due.due(arrays_of(leaves), share)

    def replay(self, schedule: Schedule, leaves, floats, reference: GradientAudit | None = None):
        """Run the forward program and hand out what the call would have returned."""
        result = self._replay_of(schedule).call(leaves, floats, reference)
        if result is NotImplemented:
            raise Retrace
        self._used = schedule
        return result

    def _replay_of(self, schedule: Schedule) -> Replay:
        if schedule.replay is None:
            with collector_off():
                schedule.replay = Replay(self, schedule)
        return schedule.replay

    def silent_child(self, function) -> ScheduleManager:
        """A manager for a part of the work that falls back to define-by-run without a word."""
        options = copy.copy(self.options)
        options.on_dynamic, options.validate_every = "fallback", 0
        child = ScheduleManager(function, options, None, f"second derivative of {self.name}")
        child._warned |= {"dynamic", "misses", "full"}
        child.audits.off = True  # the call whose gradients these are is audited itself
        return child

    def snapshot(self, plan, sources) -> CallSnapshot | None:
        """To be taken before a call whose second derivative may be asked for."""
        return CallSnapshot(plan, sources) if self.options.enable_double_backprop else None

    def _remember(self, schedule, args, kwargs) -> None:
        """Serve later calls like this one by the compiled path."""
        if not CallRunner.suits(args, kwargs):
            return
        replay = self._replay_of(schedule)
        instance = None if replay.joins_graph else spare_instance(schedule, self.runners.arena)
        self.runners.add(CallRunner(replay, instance, args, kwargs), None, args, kwargs)

    def _define_by_run(self, function, args, kwargs, reason):
        note_define_by_run(self, reason)
        return function(*args, **kwargs)

    def end_forward(self) -> None:
        """Give all activations back; a later backward through them raises `StaleGraphError`.

        Not needed: activations are free when their graph is gone.
        """
        with self.lock:
            for candidates in self.schedules.values():
                for schedule in candidates:
                    for instance in schedule.instances:
                        instance.given_back = True

    def clear(self) -> None:
        """Forget all schedules."""
        with self.lock:
            for candidates in self.schedules.values():
                for schedule in candidates:
                    schedule.gone = True
            self.schedules.clear()
            self.missed.clear()
            self.runners.clear()
            self.plain, self.families = [], Families()
            self._used = None

    def _after_fork(self, interrupted: bool) -> None:
        """In a forked child: what another thread was changing is made anew."""
        if interrupted:
            self.schedules = {}
            self.runners, self.plain = Table(), []

    def has_warned(self, topic: str) -> bool:
        """Whether a warning of this topic was issued."""
        return topic in self._warned

    def warn(self, topic: str, message: str) -> None:
        """Issue one `SdbrWarning` per topic."""
        if topic not in self._warned:
            self._warned.add(topic)
            warnings.warn(message, SdbrWarning, stacklevel=stack_level())


def _nothing():
    return None
