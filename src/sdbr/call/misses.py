"""Calls that no schedule serves: why, how often, which to trace, which not to look at again."""

from __future__ import annotations

import collections
import contextlib
import re
from collections.abc import Iterator
from typing import Any

from sdbr.base.errors import NotStaticError
from sdbr.base.logs import logger
from sdbr.base.reasons import Reason
from sdbr.call._due import Due
from sdbr.call._entry import PlainCall
from sdbr.call._spec import signature
from sdbr.call.cache_key import CallKey, describe_difference
from sdbr.call.find import Lookup
from sdbr.schedule.back_off import BACKING_OFF, FREE, FULL, WAITING, BackOff, NoBackOff, keep
from sdbr.schedule.ways import MOST as MOST_WAYS
from sdbr.schedule.ways import n_ways
from sdbr.trace.code.frames import user_line
from sdbr.trace.effects.changes import CYCLE
from sdbr.trace.guards.free_numbers import FreeNumbers
from sdbr.trace.guards.guards import Change

_misses, _back_off = logger("misses"), logger("backoff")

_WINDOW = 8  # calls
_MANY = 5  # of them traced: keys keep changing
_KNOWN = 4  # of these with arguments as before: it is no warming up, something else changes
_SAME_PLACE = 4  # keys that were dynamic at one place: the others will be, too

_PLAIN = 4  # kinds of dynamic calls that are told without a look-up

_FEW_WAYS = 8

#: Calls after which a schedule that was never replayed is of no use where calls keep being missed.
SWEPT = 32

#: How a difference begins that is one of numbers.
_OF_NUMBER = re.compile(r"argument ('.*'|\d+): (-?[\d.]+(e[-+]?\d+)?|-?inf|nan|np\.\w+\(.*?\)) -> ")
_FOR_NUMBERS = (
    "A number may change for free where it only meets variables and arrays, in arithmetic and "
    "calls of NumPy, and in comparisons; whatever else Python or NumPy does with it (a shape, an "
    "index, a text) makes its value part of the key. Pass it as"
)

#: And one of sizes alone.
_OF_SHAPE = re.compile(r"\b(\w+)\[[\d,]*\] -> \1\[[\d,]*\]")
_FOR_SHAPES = (
    "Pad batches to few shapes. Where there are not very many, sdbr.warm_up makes their schedules "
    "beforehand, as many as max_schedules of sdbr.static_graph says."
)

#: Why calls run define-by-run that could be traced.
WAYS = f"calls with the same arguments go more than {MOST_WAYS} ways"


class Misses:
    """The misses of one manager.

    Attributes
    ----------
    entries : list of (str, str)
        The part of the key that differed, and the user's line; the newest 100.
    back_off : BackOff
    free : FreeNumbers
    left : dict
        What traced calls have changed last of what they read themselves, by place.
    moving : set of str
        Where numbers lie that were others in one call than in another.
    gpu : int or None
        Where calls met arrays of CuPy that they were not given.
    sought : int
        How often that was another one than was thought.
    disturbed : int
        How often another thread has changed something while a call was traced.
    """

    def __init__(self):
        self.entries: list[tuple[str, str]] = []
        self.back_off = BackOff()
        self.free = FreeNumbers()
        self.left: dict[tuple, Change] = {}
        self.moving: set[str] = set()
        self.gpu: int | None = None
        self.sought = 0
        self.disturbed = 0
        self._calls: collections.deque = collections.deque(maxlen=_MANY)
        self._known: collections.deque = collections.deque(maxlen=_MANY)
        self._dynamic: dict[tuple, set] = {}
        self._static = False
        # By hash of the signature: those with a schedule, those looked at in full, others.
        self._traced: set[int] = set()
        self._met: dict[int, int] = {}
        self._declined: dict[int, tuple[int, int]] = {}
        self._skipped: dict[int, int] = {}  # of those with a schedule, since the last look

    def note(self, call: int, known: bool = False) -> None:
        """Call number `call` is traced; its key is new, or `known` and other state than before."""
        self._calls.append(call)
        self._known.append(known)

    def explain(self, differs: str, line: str) -> None:
        """Keep what differed from the nearest key, and the user's line."""
        self.entries.append((differs, line))
        del self.entries[:-100]

    def keep_coming(self, call: int) -> bool:
        """Whether five of the last eight calls were traced, call number `call` included.

        The first calls of all have new keys without a reason to say so, unless the keys are known.
        """
        many = len(self._calls) == _MANY and call - self._calls[0] < _WINDOW
        return many and (call >= _WINDOW or sum(self._known) >= _KNOWN)

    def advice(self, name: str, call: int) -> str:
        """What users are told at call number `call` when no schedule serves one after the other."""
        often = (
            "five of the last eight calls were traced anew"
            if self.keep_coming(call)
            else f"{self.back_off.missed} calls had no schedule"
        )
        part = self.entries[-1][0] if self.entries else "the key"
        if _OF_SHAPE.search(part):
            advice = _FOR_SHAPES
        else:
            of_argument = part.startswith("argument ")
            advice = "Pad batches to few shapes, pass what" if of_argument else "Pass what"
            advice = _FOR_NUMBERS if _OF_NUMBER.match(part) else f"{advice} changes as"
            advice += " an array, or put code that changes it into sdbr.static_code."
        return (
            f"{name}: {often} because this part of the key keeps changing: {part}. {advice} "
            f"After {FREE} such calls in a row only the 32nd, the 64th and so on may be traced; "
            "the others run define-by-run."
        )

    @contextlib.contextmanager
    def without_back_off(self, manager) -> Iterator[None]:
        """Calls in this block are made for their schedules, and say nothing of those that come.

        All of them are traced as long as there is room; no other schedule goes for one of theirs.
        """
        with manager.lock:
            mine, calls, known = self.back_off, self._calls, self._known
            mine.settle(manager.statistics)
            self.back_off = NoBackOff()
            self._calls = collections.deque(maxlen=_MANY)
            self._known = collections.deque(maxlen=_MANY)
        try:
            yield
        finally:
            with manager.lock:
                self.back_off, self._calls, self._known = mine, calls, known
                mine.pass_over(manager.statistics)

    def traced(self, key: CallKey, reason: Reason | None) -> None:
        """A call was traced; it was dynamic for this reason, or static for None."""
        if reason is None:
            self._static = True
        else:
            # Whether a call is static may depend on the configuration (`train`).
            self._dynamic.setdefault((key.config, reason), set()).add(key)

    def why_not_looked_up(self, manager, args: tuple, kwargs: dict) -> str | None:
        """Why a call that will hardly have a schedule runs define-by-run at once, or None.

        One that cannot have any is declined as it would be after a look-up in full, which takes
        longer. Of those that could, few are looked up while all look-ups are in vain.
        """
        back_off = self.back_off
        if not self._static:
            return None
        with manager.lock:
            if back_off.skips_waiting(manager.statistics):
                return WAITING
        if not (back_off.backs_off and manager.has_warned("misses")):
            return None
        found = signature(args, kwargs, bool(self.free))
        if found is None:
            return None
        mark = hash(found)
        with manager.lock:
            if back_off.will_try(manager.statistics) or not back_off.backs_off:
                return None
            if mark in self._traced:
                if not back_off.skips():
                    return None
                self._skipped[mark] = self._skipped.get(mark, 0) + 1
            elif not back_off.declines_unseen(*self._seen(mark)):
                return None
            else:
                _, times = self._declined.pop(mark, (None, 0))
                keep(self._declined, mark, (manager.statistics.calls, times + 1))
            back_off.decline_new()
        return BACKING_OFF

    def _seen(self, mark: int) -> tuple[bool, int]:
        """Whether a call with this signature was missed before; how often without a look-up."""
        again = mark in self._met or mark in self._declined
        return again, self._declined.get(mark, (None, 0))[1]

    def met(self, found: tuple | None, what: Any, call: int) -> int:
        """A call with this signature is missed; `what` tells it from others.

        How many like it were not looked up since the last one that was.
        """
        mark = hash(found)
        if mark in self._declined:
            self.back_off.has_seen(what, *self._declined.pop(mark))
        keep(self._met, mark, call)
        return self._skipped.pop(mark, 0)

    def is_traced(self, found: tuple | None) -> None:
        """A call with this signature gets a schedule."""
        self._traced.add(hash(found))

    def always_dynamic(self, key: CallKey) -> Reason | None:
        """Why a call with this new key will be dynamic: all before it were, at one place."""
        if self._static:
            return None
        for (config, reason), keys in self._dynamic.items():
            if config == key.config and len(keys) >= _SAME_PLACE:
                return reason
        return None

    def clear(self) -> None:
        """Forget all but the entries, which reports show."""
        self.back_off, self.free = BackOff(), FreeNumbers()
        self.left.clear()
        self.moving.clear()
        self._calls.clear()
        self._known.clear()
        self._dynamic.clear()
        self._static = False
        for known in (self._traced, self._met, self._declined, self._skipped):
            known.clear()


def why_not_traced(manager, lookup: Lookup, call: int) -> tuple[tuple | None, str | None]:
    """What tells call number `call` without a schedule from others; why it is not traced, or None.

    Raises
    ------
    NotStaticError
        With ``on_dynamic='raise'``, if the call is going to be dynamic.
    """
    misses, key = manager.missed, lookup.key
    with manager.lock:
        known = manager.schedules.get(key)
        counted = bool(known) and known[-1].counts and known[-1].guards.failed_comparison
        if (lookup.answers or counted) and n_ways(known or ()) >= MOST_WAYS:
            warn_ways(manager, lookup.differs or known[-1].guards.describe_failure())
            return None, WAYS
        if lookup.answers:
            what: tuple = key, lookup.answers
        elif known and not known[-1].guards.failed:
            return None, None  # another thread has traced it since it was looked for
        else:
            what = key, known[-1].guards.failure() if known else None
        # What a known key reads has changed since it was dynamic: it may be static by now.
        always = None if known else misses.always_dynamic(key)
        reason = None if always is None else always.text
        if always is None:
            skipped = misses.met(lookup.signature, what, call)
            if misses.back_off.will_try(manager.statistics):
                manager.sweep()
            # A further way of a call takes no other schedule's place.
            idle = None if lookup.answers or counted else manager.least_used()
            few = bool(lookup.answers) and n_ways(known) <= _FEW_WAYS
            reason = misses.back_off.decide(what, call, idle, few, skipped)
        if manager.schedules and (reason is None or not _has_told(manager, reason)):
            differs = lookup.differs or describe_difference(key, list(manager.schedules))
            if not lookup.answers and known and known[-1].guards.failed:
                differs = known[-1].guards.describe_failure()
            line = user_line()
            misses.explain(differs, line)
            _misses.info("%s: no schedule at %s: %s", manager.name, line, differs)
        if reason is None:
            misses.is_traced(lookup.signature)
        if reason is None and not lookup.answers:
            misses.note(call, bool(known))
    if always is not None and manager.options.on_dynamic == "raise":
        raise NotStaticError(manager.dynamic_message(always))
    if reason is not None and reason not in manager.define_by_run_reasons:
        _back_off.info("%s: call %d is not traced: %s", manager.name, call, reason)
    if reason == FULL:
        warn_full(manager)
    elif reason is None and CYCLE - sum(bool(s.guards.changed) for s in known or ()) in (0, 1):
        # The trace may find that the call itself changes it, and says so; the first of these may
        # have made what the others have changed.
        pass
    elif misses.entries and (
        reason == BACKING_OFF or misses.keep_coming(call) or misses.back_off.declined > FREE
    ):
        manager.warn("misses", misses.advice(manager.name, call))
    return what, reason


def waits(manager, lookup: Lookup, call: int) -> bool:
    """Whether the first replay of the schedule of call number `call` has to wait."""
    schedule = lookup.schedule
    if schedule is None or schedule.may_be_replayed or schedule.dynamic is not None:
        return False
    if schedule.family is not None or manager.options.validate_every:
        return False
    with manager.lock:
        manager.back_off.settle(manager.statistics)
        if manager.back_off.may_build(schedule.traced_at, call, bool(schedule.answers)):
            schedule.may_be_replayed = True
            return False
        schedule.usage.last_call, schedule.waited = call, True
    lookup.schedule, lookup.missed = None, (None, WAITING)
    return True


def new_size(manager, lookup: Lookup, call: int) -> None:
    """Decide what becomes of call number `call`, which no schedule serves.

    Its schedule is built of two others where that is worth while and can be done without a trace;
    else ``lookup.missed`` says whether it is traced.
    """
    what, reason = lookup.missed = why_not_traced(manager, lookup, call)
    if reason is not None or lookup.answers or manager.audits.off:
        return
    with manager.lock:
        schedule = manager.families.build(manager.schedules, lookup.key, lookup.floats)
        if schedule is None:
            return
        schedule.due = Due(manager.audits.budget, [], schedule.device, schedule.family.count)
        schedule.due.sums = [None] * len(lookup.leaves)  # the traced calls were compared
        schedule.due.pending = not schedule.family.proven
        manager.take_up(schedule)
        manager.statistics.builds += 1
        manager.back_off.built(what)
    lookup.missed = None, None
    lookup.schedule = schedule


def _has_told(manager, reason: str) -> bool:
    """Whether users know why such calls are not traced: comparing keys takes long."""
    if reason == FULL:
        return manager.has_warned("full")
    return manager.has_warned("misses")


def warn_full(manager) -> None:
    """Tell users, once, that there are not enough schedules for the calls that come."""
    differs = f" ({manager.misses[-1][0]})" if manager.misses else ""
    manager.warn(
        "full",
        f"{manager.name}: there are max_schedules={manager.options.max_schedules} schedules, and "
        f"calls come that need more of them{differs}. Those that are used most are kept, the other "
        "calls run define-by-run. sdbr.static_graph(..., max_schedules=...) keeps more; or pad "
        "batches to fewer shapes.",
    )


def warn_ways(manager, differs: str) -> None:
    """Tell users, once, that calls with the same arguments go too many ways."""
    manager.warn("ways", f"{manager.name}: {WAYS}; new ones run define-by-run: {differs}")


def remember_plain(manager, lookup: Lookup, args: tuple, kwargs: dict) -> None:
    """Let later calls like this one, which is dynamic, run define-by-run without a look-up."""
    schedule, served = lookup.schedule, lookup.schedule.usage.served
    if schedule.trace.quiet or served < 4 or served & (served - 1):
        return
    with manager.lock:
        group = manager.schedules.get(lookup.key, [])
        # `ScheduleManager.find` gives up then, whatever the guards say.
        always = len(group) > 1 and all(s.dynamic and not s.trace.quiet for s in group)
        if not always and (group[-1:] != [schedule] or any(s.answers for s in group)):
            return
        if PlainCall.suits(args, kwargs, always):
            made = PlainCall(manager, schedule, always, args, kwargs)
            manager.plain = [made, *manager.plain[: _PLAIN - 1]]
