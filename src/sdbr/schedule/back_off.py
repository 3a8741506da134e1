"""Which calls that no schedule serves are worth a trace, and which schedules a program."""

from __future__ import annotations

import collections
from typing import Any

#: How many misses in a row are traced; after them the 32nd, the 64th and so on may be.
FREE = 16

_FAR = 1024  # from here on every so many, not the double
_FIRST = 16  # calls that may cost traces nobody has paid for
_REPLAYS = 24  # that pay for one trace
_CALLS = 160  # that pay for one, whether they are replays or not
_OWED = 1  # traces, for one more: a training call may come with several kinds of its own
_UNPAID = 2  # for one more of what comes often, or where most calls have schedules
_CARRIED = 40  # calls that pay, after the first calls, for a miss among these
_MANY = 8  # of which no more are to be paid for
_BUILT = 2  # schedules that are built of other traces cost what one trace costs
_SAVED = 16  # traces that may be paid for in advance
_REMEMBERED = 4096  # misses
_UNSEEN = 15  # calls that are declined one after the other without a look at their schedules
_IN_VAIN = 8  # look-ups one after the other; of what may have a schedule one in so many is then
_LOOKED_AT = 8
_QUIET = 16  # calls without a miss, at most, after which those with schedules will come again
_OF_LATE = 64  # calls that are counted, about: had they schedules?
_DOUBT = 8  # calls that are taken to have had none, in place of the first calls

#: Why calls run define-by-run that could be traced, or replayed.
BACKING_OFF = "no schedule serves it, and tracing such calls has been of no use"
FULL = "max_schedules schedules are kept, and each is used more often than this one would be"
FULL_AND_NEW = "max_schedules schedules are kept, and no such call came before"
WAITING = "it would be the first replay of its schedule, which would cost more than it may save"


class BackOff:
    """Which of the calls that no schedule serves are worth a trace.

    A trace costs several calls, and pays when its schedule is replayed. Those of the first calls
    are free. Later ones are paid for by replays, which save what they cost, and by calls of any
    kind, a small part each: so what traces cost in all stays a small part of the calls. The first
    misses in a row are traced, then ever fewer; replays end the row when all traces are paid for.
    What has been missed before is traced when it comes again, if all are paid for, too. The first
    replay of a schedule costs about as much: where most calls are missed, it is paid for, too.
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
        self._last = 0  # and last
        self._in_vain = 0  # calls since the last replay that might have had a schedule
        self._waiting = 0  # calls one after the other whose schedules had to wait
        self._with = 0  # calls of late that had a schedule for certain
        self._without = _DOUBT  # and those that had none
        self._calls = 0  # when it was last looked at
        self._replays = 0  # then
        self._builds = 0  # since
        self._seen: dict[int, tuple[int, int]] = {}  # by hash: number of the call, how often
        self._under_way: collections.Counter[int] = collections.Counter()  # traces, by hash

    @property
    def backs_off(self) -> bool:
        """Whether misses are traced more rarely by now."""
        return self.in_a_row > FREE

    @property
    def next_trial(self) -> int:
        """Which miss of the row is traced, whatever it is."""
        n = max(self.in_a_row + 1, 2 * FREE)
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
        self.settle(statistics)
        return self.in_a_row >= FREE and _is_trial(self.in_a_row + 1)

    def decide(
        self, what: Any, call: int, idle: int | None, few: bool = False, skipped: int = 0
    ) -> str | None:
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
        few : bool
            Whether it is one of few ways through a call: these are soon known.
        skipped : int
            How many calls that look like this one were not looked up since.
        """
        mark = hash(what)
        if self._under_way[mark]:
            self._under_way[mark] += 1
            return None  # another thread is tracing it, which says nothing of what comes
        self._last = call
        self._missed(call)
        last, times = self._seen.pop(mark, (None, 0))
        now = times + 1 + (skipped if times else 0)
        keep(self._seen, mark, (call, now))
        often = idle is None and (few or any(map(_is_trial, range(times + 1, now + 1))))
        reason = self._objection(call, idle, None if last is None else call - last, often)
        if reason is None:
            self._under_way[mark] += 1
        else:
            self.declined += 1
        return reason

    def decline_new(self) -> None:
        """Note a miss that is not looked at, and not traced."""
        self._last = self._calls
        self._missed(self._calls)
        self.declined += 1

    def declines_unseen(self, again: bool, times: int) -> bool:
        """Whether a miss is not traced, whatever tells it from others.

        Parameters
        ----------
        again : bool
            Whether such a call has been missed before.
        times : int
            How often it was declined without a look since it was last looked at.
        """
        return not again or (self._debt > _CALLS * _OWED and times < _UNSEEN)

    def skips(self) -> bool:
        """Whether a call that may have a schedule is not looked up: others were so in vain."""
        self._in_vain += 1
        return self._in_vain > _IN_VAIN and self._in_vain % _LOOKED_AT != 0

    def skips_waiting(self, statistics: Any) -> bool:
        """Whether a call is not looked up, as those before it have found schedules that wait."""
        if self._waiting <= _IN_VAIN:
            return False
        self.settle(statistics)
        if self._waiting <= _IN_VAIN or self._debt <= _CALLS * _OWED:
            return False
        self._waiting += 1
        return self._waiting % _LOOKED_AT != 0

    def has_seen(self, what: Any, call: int, times: int = 1) -> None:
        """What is missed now has been missed so often, at `call` last, and was not looked at."""
        last, before = self._seen.pop(hash(what), (call, 0))
        self._seen[hash(what)] = max(last, call), before + times

    def may_build(self, traced: int, call: int, asks: bool) -> bool:
        """Whether a schedule that was traced at call `traced` may be replayed for the first time.

        That costs about as much as a trace: a program is built, and the replay is audited. A
        trace that was paid for has paid for it, too; for the others it costs what half a trace
        costs, unless most calls of late had schedules: then those that there are come again.

        Parameters
        ----------
        traced, call : int
            Numbers of calls: the one traced for it, and the present one.
        asks : bool
            Whether nobody knows yet that it is the schedule of this call, as that asks.
        """
        if self._costs(traced) or not self._costs(call) or self._is_quiet(call):
            return True
        self._came(with_schedule=int(not asks))
        alike = not asks and not self._costs(self._last)  # nothing has been missed since
        if alike or self._with >= self._without:
            return True
        if self._debt > _CALLS * _OWED:
            self._in_vain = 0
            self._waiting += 1
            if asks:
                self._last = call  # nobody knows whether it goes that way
            return False
        self._debt += _CALLS // _BUILT
        return True

    def built(self, what: Any) -> None:
        """What was missed was built of other traces, which costs less than a trace."""
        self._builds += 1
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

    def settle(self, statistics: Any) -> None:
        """Pay for traces by what came since the last miss; replays may end the row."""
        calls, replays = statistics.calls, statistics.replays
        # The replay for which a schedule was built is none that has come again.
        hits, self._replays = max(0, replays - self._replays - self._builds), replays
        passed, self._calls = max(0, calls - self._calls), calls
        self._builds = 0
        self._debt = max(self._debt - passed - hits * _CALLS // _REPLAYS, -_CALLS * _SAVED)
        if hits:
            self._in_vain = self._waiting = 0
            self._came(hits)
        if hits and self._debt <= 0:
            self.in_a_row = 0

    def pass_over(self, statistics: Any) -> None:
        """Calls since it was settled say nothing of what comes, and pay for nothing."""
        self._calls, self._replays = statistics.calls, statistics.replays

    def _objection(
        self, call: int, idle: int | None, interval: int | None, often: bool
    ) -> str | None:
        again = interval is not None
        if self._first is None:
            self._first = call
        if idle is not None and not (again and idle > 2 * interval):
            return FULL if again else BACKING_OFF if self.backs_off else FULL_AND_NEW
        free = not self._costs(call)
        owed = _UNPAID if self._with >= self._without else _OWED
        paid = free or self._debt <= _CALLS * owed
        if often or _is_trial(self.in_a_row):
            wanted = free or self._debt <= _CALLS * _UNPAID
        else:
            wanted = paid and (again or not self.backs_off)
        if not wanted:
            return BACKING_OFF
        self._debt += _CALLS
        if free:
            self._debt = min(self._debt, _CARRIED * min(self.missed, _MANY))
        return None

    def _missed(self, call: int) -> None:
        self.in_a_row += 1
        self.missed += 1
        self._waiting = 0
        self._came(without=int(self._costs(call)))

    def _came(self, with_schedule: int = 0, without: int = 0) -> None:
        """So many calls came that had a schedule, and so many that had none."""
        self._with += min(with_schedule, _OF_LATE)
        self._without += without
        if self._with + self._without > _OF_LATE:
            self._with //= 2
            self._without //= 2

    def _is_quiet(self, call: int) -> bool:
        """Whether all calls of late had schedules, for as long as there were misses before."""
        return call - self._last >= min(self.missed, _QUIET) ** 2 // _QUIET

    def _costs(self, call: int) -> bool:
        """Whether a trace at this call has to be paid for."""
        return self._first is not None and call - self._first >= _FIRST


class NoBackOff(BackOff):
    """Where calls are made to have their schedules: all are traced, as long as there is room."""

    def may_build(self, traced: int, call: int, asks: bool) -> bool:
        return True

    def _objection(
        self, call: int, idle: int | None, interval: int | None, often: bool
    ) -> str | None:
        return None if idle is None else FULL


def _is_trial(n: int) -> bool:
    return n >= FREE and (n & (n - 1) == 0 if n <= _FAR else n % _FAR == 0)


def keep(known: dict, mark: int, thing: Any) -> None:
    """Put something into a dictionary that forgets the oldest."""
    known[mark] = thing
    if len(known) > _REMEMBERED:
        del known[next(iter(known))]
