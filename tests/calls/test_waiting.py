"""Calls that no schedule serves: first replays that wait, look-ups in vain, ways that are few."""

from __future__ import annotations

import sdbr
from sdbr.schedule.back_off import WAITING, BackOff

import chainer
import numpy as np
import pytest
from chainer import links as L

from tests.tolerances import RESULTS

X = np.linspace(-1, 1, 20).astype("f").reshape(5, 4)


class Net(chainer.Chain):
    """A layer, and numbers that may change."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(4, 3)
        self.n = 2
        self.text = "1"

    def forward(self, x, m=1):
        """The layer times a number; a text decides whether, which is compared."""
        return self.l(x) * m * (self.n if self.text else 1)


class Counts:
    """What a rule asks statistics for."""

    def __init__(self):
        self.calls = self.replays = self.python_ops = 0


def served(static):
    """Schedules that were traced, replays, and calls that ran define-by-run."""
    s = static.schedule_manager.statistics
    return s.traces, s.replays, s.define_by_run_calls


def check(static, *args):
    """Make a call, and compare it with the plain one."""
    got = static(*args)
    want = type(static).__mro__[1].forward(static, *args)
    np.testing.assert_allclose(got.array, want.array, rtol=RESULTS, atol=RESULTS)


def attribute(static, n):
    """A call with another text in an attribute."""
    static.text = str(n)
    check(static, X)


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
def test_a_first_replay_waits_where_few_calls_have_schedules():
    """What the first calls have traced is not built for a call now and then; equal results."""
    static = sdbr.static_graph(Net())
    for i in range(1, 61):
        check(static, X, np.int64(15 if i % 12 == 0 and i > 16 else i))
    manager = static.schedule_manager
    assert manager.statistics.replays == 0
    assert manager.define_by_run_reasons[WAITING] >= 1
    for _ in range(40):  # nothing new comes any more
        check(static, X, np.int64(15))
    replays = manager.statistics.replays
    check(static, X, np.int64(15))
    assert manager.statistics.replays == replays + 1 >= 24
    assert manager.statistics.traces == 16


def test_first_replays_do_not_wait_where_all_calls_have_schedules():
    static = sdbr.static_graph(Net())
    for _ in range(10):
        for m in range(2, 10):
            check(static, X, np.int64(m))
    assert served(static) == (8, 72, 0)
    assert WAITING not in static.schedule_manager.define_by_run_reasons


def after_the_first_calls():
    """A rule, and what it counts, when 16 calls were traced."""
    back_off, counts = BackOff(), Counts()
    for i in range(1, 17):
        counts.calls = i
        back_off.settle(counts)
        assert back_off.decide(i, i, None) is None
        back_off.ended(i)
        assert back_off.may_build(i, i, False)  # among the first calls
    return back_off, counts


@pytest.mark.parametrize(
    ("hits", "of", "asks", "free"), [(1, 3, False, False), (2, 3, False, True), (2, 3, True, False)]
)
def test_a_first_replay_is_paid_for_unless_most_calls_have_schedules(hits, of, asks, free):
    """A call of which nobody knows yet whether it goes that way has none for certain."""
    back_off, counts = after_the_first_calls()
    built = []
    for i in range(17, 1001):
        counts.calls = i
        back_off.settle(counts)
        if i % of >= hits:
            back_off.decide(1000 + i, i, 1)  # something new, for which there is no room
        elif back_off.may_build(1, i, asks):
            built.append(i)
    if free:
        assert len(built) >= 984 * hits / of - 16  # all but the first few
    else:
        assert 16 + 160 <= built[0] <= 16 + 160 + of and len(built) <= 1000 / 80
    assert back_off.may_build(500, 1001, False)  # a trace that was paid for has paid for it


def test_first_replays_do_not_wait_before_something_is_missed_again():
    """The first calls were all there is, so far; a call that asks may be something new."""
    back_off, _ = after_the_first_calls()
    assert all(back_off.may_build(1, i, False) for i in range(17, 20))
    back_off, _ = after_the_first_calls()
    assert not back_off.may_build(1, 17, True)


def test_calls_of_late_count():
    """Where schedules served all calls for long, and few do by now, first replays wait again."""
    back_off, counts = after_the_first_calls()
    counts.calls = counts.replays = 5000
    back_off.settle(counts)
    back_off._debt = 1000  # else what the replays have saved pays for it
    for i in range(5001, 5101):
        counts.calls = i
        back_off.decide(i, i, 1)
    assert not back_off.may_build(1, 5101, False)


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
def test_look_ups_in_vain_are_few(monkeypatch):
    """An attribute is new each time: the key is known, and the guards are asked now and then."""
    static = sdbr.static_graph(Net())
    for i in range(1, 61):
        attribute(static, i)
    manager, seen = static.schedule_manager, []
    find = manager.find
    monkeypatch.setattr(manager, "find", lambda *a: seen.append(a) or find(*a))
    for i in range(100, 180):
        attribute(static, i)
    assert 8 <= len(seen) <= 14
    assert manager.statistics.replays == 0
    for _ in range(100):  # one stays at last, and is traced at its 16th time or soon after
        attribute(static, 200)
    assert manager.statistics.replays >= 16


class Ways(Net):
    """Each number that the array begins with is a way of its own."""

    def forward(self, x, m=1):
        """The layer times the number."""
        return super().forward(x, m) * int(x[0, 0] > 0) * len(np.zeros(int(x[0, 1])))


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
def test_calls_that_wait_are_looked_up_now_and_then(monkeypatch):
    """Nobody knows yet which way they go; what is known is not asked each time."""
    static = sdbr.static_graph(Ways())

    def call(n):
        x = X.copy()
        x[0, :2] = 1, n
        check(static, x)

    for i in range(1, 21):
        call(i)
    manager, seen = static.schedule_manager, []
    find = manager.find
    monkeypatch.setattr(manager, "find", lambda *a: seen.append(a) or find(*a))
    for i in range(100, 180):
        call(i)
    assert 8 <= len(seen) <= 24
    assert manager.statistics.replays == 0
    assert manager.define_by_run_reasons[WAITING] >= 70
    monkeypatch.undo()
    for _ in range(160):  # one way comes again and again
        call(3)
    replays = manager.statistics.replays
    call(3)
    assert manager.statistics.replays == replays + 1


def test_ways_are_few():
    """A new way through a call whose ways are few is traced on credit, another one is not."""
    for few in (False, True):
        back_off = BackOff()
        for i in range(1, 17):
            back_off.decide(i, i, None)
        assert (back_off.decide(17, 17, None, few) is None) == few
