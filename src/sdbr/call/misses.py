"""Calls that no schedule serves: why, how often, which to trace, which not to look at again."""

from __future__ import annotations

import collections
from typing import Any

from sdbr.base.errors import NotStaticError
from sdbr.base.reasons import Reason
from sdbr.call._due import Due
from sdbr.call._entry import PlainCall
from sdbr.call._spec import signature
from sdbr.call.cache_key import CallKey, describe_difference
from sdbr.call.find import Lookup
from sdbr.schedule.ways import MOST as MOST_WAYS
from sdbr.schedule.ways import n_ways
from sdbr.trace.code.frames import user_line
from sdbr.trace.effects.changes import CYCLE
from sdbr.trace.guards.guards import Change

_WINDOW = 8  # calls
_MANY = 5  # of them traced: keys keep changing
_KNOWN = 4  # of these with arguments as before: it is no warming up, something else changes
_SAME_PLACE = 4  # keys that were dynamic at one place: the others will be, too

_PLAIN = 4  # kinds of dynamic calls that are told without a look-up

_FREE = 16  # misses in a row that are traced; after them the 32nd, the 64th and so on
_FAR = 1024  # from here on every so many, not the double
_FIRST = 16  # calls that may cost traces nobody has paid for
_REPLAYS = 24  # that pay for one trace
_CALLS = 128  # that pay for one, whether they are replays or not
_OWED = 1  # traces, for one more: a training call may come with several kinds of its own
_UNPAID = 2  # for one more of what comes often
_BUILT = 2  # schedules that are built of other traces cost what one trace costs
_SAVED = 16  # traces that may be paid for in advance
_REMEMBERED = 4096  # misses

#: Calls after which a schedule that was never replayed is of no use where calls keep being missed.
SWEPT = 32

#: Why calls run define-by-run that could be traced.
BACKING_OFF = "no schedule serves it, and tracing such calls has been of no use"
FULL = "max_schedules schedules are kept, and each is used more often than this one would be"
WAYS = f"calls with the same arguments go more than {MOST_WAYS} ways"
FULL_AND_NEW = "max_schedules schedules are kept, and no such call came before"


class Misses:
    """The misses of one manager.

    Attributes
    ----------
    entries : list of (str, str)
        The part of the key that differed, and the user's line; the newest 100.
    back_off : BackOff
    left : dict
        What traced calls have changed last of what they read themselves, by place.
    """

    def __init__(self):
        self.entries: list[tuple[str, str]] = []
        self.back_off = BackOff()
        self.left: dict[tuple, Change] = {}
        self._calls: collections.deque = collections.deque(maxlen=_MANY)
        self._known: collections.deque = collections.deque(maxlen=_MANY)
        self._dynamic: dict[tuple, set] = {}
        self._static = False
        # By hash of the signature: those with a schedule, those looked at in full, others.
        self._traced: set[int] = set()
        self._met: dict[int, int] = {}
        self._declined: dict[int, int] = {}

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
        return (
            f"{name}: {often} because this part of the key keeps changing: {part}. Pad batches to "
            "few shapes, pass what changes as an array, or put code that changes it into "
            f"sdbr.static_code. After {_FREE} such calls in a row only the 32nd, the 64th and so "
            "on is traced; the others run define-by-run."
        )

    def traced(self, key: CallKey, reason: Reason | None) -> None:
        """A call was traced; it was dynamic for this reason, or static for None."""
        if reason is None:
            self._static = True
        else:
            # Whether a call is static may depend on the configuration (`train`).
            self._dynamic.setdefault((key.config, reason), set()).add(key)

    def why_not_looked_up(self, manager, args: tuple, kwargs: dict) -> str | None:
        """Why a call that cannot have a schedule runs define-by-run at once, or None.

        It is declined as it would be after a look-up in full, which takes longer.
        """
        back_off = self.back_off
        if not (back_off.backs_off and self._static and manager.has_warned("misses")):
            return None
        found = signature(args, kwargs)
        if found is None:
            return None
        mark = hash(found)
        with manager.lock:
            if any(mark in known for known in (self._traced, self._met, self._declined)):
                return None
            if back_off.will_try(manager.statistics) or not back_off.backs_off:
                return None
            _keep(self._declined, mark, manager.statistics.calls)
            back_off.decline_new()
        return BACKING_OFF

    def met(self, found: tuple | None, what: Any, call: int) -> None:
        """A call with this signature is missed; `what` tells it from others."""
        mark = hash(found)
        if mark in self._declined:
            self.back_off.has_seen(what, self._declined.pop(mark))
        _keep(self._met, mark, call)

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
        self.back_off = BackOff()
        self.left.clear()
        self._calls.clear()
        self._known.clear()
        self._dynamic.clear()
        self._static = False
        for known in (self._traced, self._met, self._declined):
            known.clear()


def _keep(known: dict, mark: int, thing: Any) -> None:
    """Put something into a dictionary that forgets the oldest."""
    known[mark] = thing
    if len(known) > _REMEMBERED:
        del known[next(iter(known))]


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
            misses.met(lookup.signature, what, call)
            if misses.back_off.will_try(manager.statistics):
                manager.sweep()
            # A further way of a call takes no other schedule's place.
            idle = None if lookup.answers or counted else manager.least_used()
            reason = misses.back_off.decide(what, call, idle)
        if manager.schedules and (reason is None or not _has_told(manager, reason)):
            differs = lookup.differs or describe_difference(key, list(manager.schedules))
            if not lookup.answers and known and known[-1].guards.failed:
                differs = known[-1].guards.describe_failure()
            misses.explain(differs, user_line())
        if reason is None:
            misses.is_traced(lookup.signature)
        if reason is None and not lookup.answers:
            misses.note(call, bool(known))
    if always is not None and manager.options.on_dynamic == "raise":
        raise NotStaticError(manager.dynamic_message(always))
    if reason == FULL:
        warn_full(manager)
    elif reason is None and sum(bool(s.guards.changed) for s in known or ()) == CYCLE - 1:
        pass  # the trace may find that the call itself changes it, and says so
    elif misses.entries and (
        reason == BACKING_OFF or misses.keep_coming(call) or misses.back_off.declined > _FREE
    ):
        manager.warn("misses", misses.advice(manager.name, call))
    return what, reason


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
        schedule.due = Due(manager.audits.budget, [])
        schedule.due.sums = [None] * len(lookup.leaves)  # the traced calls were compared
        schedule.due.pending = not schedule.family.proven
        manager.take_up(schedule)
        manager.statistics.builds += 1
        manager.back_off.built(what, call)
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
        "calls run define-by-run. Raise max_schedules, or pad batches to fewer shapes.",
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


class BackOff:
    """Which of the calls that no schedule serves are worth a trace.

    A trace costs several calls, and pays when its schedule is replayed. Those of the first calls
    are free. Later ones are paid for by replays, which save what they cost, and by calls of any
    kind, a small part each: so what traces cost in all stays a small part of the calls. The first
    misses in a row are traced, then ever fewer; replays end the row when all traces are paid for.
    What has been missed before is traced when it comes again, if all are paid for, too.
    Calls are counted, and no times are taken: the same calls are served alike in each run.

    Attributes
    ----------
    in_a_row : int
        Misses since the last replay that ended a row of them.
    missed : int
        All misses.
    declined : int
        Those of them that were not traced.
    """

    def __init__(self):
        self.in_a_row = 0
        self.missed = 0
        self.declined = 0
        self._debt = 0  # in calls that pay for a part of a trace; a replay counts as several
        self._first: int | None = None  # the call that was missed first
        self._calls = 0  # when it was last looked at
        self._replays = 0  # then
        self._builds = 0  # since
        self._seen: dict[int, tuple[int, int]] = {}  # by hash: number of the call, how often
        self._under_way: collections.Counter[int] = collections.Counter()  # traces, by hash

    @property
    def backs_off(self) -> bool:
        """Whether misses are traced more rarely by now."""
        return self.in_a_row > _FREE

    @property
    def next_trial(self) -> int:
        """Which miss of the row is traced, whatever it is."""
        n = max(self.in_a_row + 1, 2 * _FREE)
        return 1 << (n - 1).bit_length() if n <= _FAR else -(-n // _FAR) * _FAR

    def to_dict(self) -> dict:
        """What reports show."""
        return {
            "missed": self.missed,
            "declined": self.declined,
            "in_a_row": self.in_a_row,
            "next_trial": self.next_trial,
            "active": self.backs_off,
        }

    def will_try(self, statistics: Any) -> bool:
        """Whether a miss after these calls is one that is tried although others were not."""
        self._settle(statistics.calls, statistics.replays)
        return self.in_a_row >= _FREE and _is_trial(self.in_a_row + 1)

    def decide(self, what: Any, call: int, idle: int | None) -> str | None:
        """Note a miss; why it is not to be traced, or None.

        Parameters
        ----------
        what : hashable
            What tells it from others.
        call : int
            Its number.
        idle : int or None
            For how many calls the schedule that would have to go has not been used; None where
            there is room.
        """
        mark = hash(what)
        if self._under_way[mark]:
            self._under_way[mark] += 1
            return None  # another thread is tracing it, which says nothing of what comes
        self.in_a_row += 1
        self.missed += 1
        last, times = self._seen.pop(mark, (None, 0))
        _keep(self._seen, mark, (call, times + 1))
        reason = self._objection(call, idle, None if last is None else call - last, times + 1)
        if reason is None:
            self._under_way[mark] += 1
        else:
            self.declined += 1
        return reason

    def decline_new(self) -> None:
        """Note a miss that nobody has met before, which is not traced."""
        self.in_a_row += 1
        self.missed += 1
        self.declined += 1

    def has_seen(self, what: Any, call: int) -> None:
        """What is missed now has been missed at `call`, and was not looked at."""
        self._seen.setdefault(hash(what), (call, 1))

    def built(self, what: Any, call: int) -> None:
        """What was missed at `call` was built of other traces, which costs less than a trace."""
        self._builds += 1
        if self._costs(call):
            self._debt -= _CALLS - _CALLS // _BUILT
        self.ended(what)

    def ended(self, what: Any) -> None:
        """The trace of a miss has ended, or was given up; None: it was not counted."""
        if what is None:
            return
        mark = hash(what)
        self._under_way[mark] -= 1
        if self._under_way[mark] <= 0:
            del self._under_way[mark]

    def _settle(self, calls: int, replays: int) -> None:
        """Pay for traces by what came since the last miss; replays may end the row."""
        # The replay for which a schedule was built is none that has come again.
        hits, self._replays = max(0, replays - self._replays - self._builds), replays
        passed, self._calls = max(0, calls - self._calls), calls
        self._builds = 0
        self._debt = max(self._debt - passed - hits * _CALLS // _REPLAYS, -_CALLS * _SAVED)
        if hits and self._debt <= 0:
            self.in_a_row = 0

    def _objection(
        self, call: int, idle: int | None, interval: int | None, times: int
    ) -> str | None:
        again = interval is not None
        if self._first is None:
            self._first = call
        if idle is not None and not (again and idle > 2 * interval):
            return FULL if again else BACKING_OFF if self.backs_off else FULL_AND_NEW
        paid = self._debt <= _CALLS * _OWED and (again or not self.backs_off)
        often = idle is None and _is_trial(times) and self._debt <= _UNPAID * _CALLS
        if not (paid or often or _is_trial(self.in_a_row)):
            return BACKING_OFF
        if self._costs(call):
            self._debt += _CALLS
        return None

    def _costs(self, call: int) -> bool:
        """Whether a trace at this call has to be paid for."""
        return self._first is not None and call - self._first >= _FIRST


def _is_trial(n: int) -> bool:
    return n >= _FREE and (n & (n - 1) == 0 if n <= _FAR else n % _FAR == 0)
