"""Calls that no schedule serves: which are traced, which run define-by-run, which schedules go."""

from __future__ import annotations

import warnings

import sdbr
from sdbr.base.errors import Retrace
from sdbr.schedule.back_off import BACKING_OFF, FULL, FULL_AND_NEW, WAITING, BackOff

import chainer
import numpy as np
import pytest
from chainer import links as L

from tests.tolerances import GRADIENTS, RESULTS, ROUNDINGS

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


def sized(n):
    """A batch of this size."""
    return np.full((n, 4), 0.25, "f")


def served(static):
    """Schedules that were traced or built, later replays, and calls that ran define-by-run."""
    s = static.schedule_manager.statistics
    return s.traces + s.builds, s.replays - s.builds, s.define_by_run_calls


def check(static, *args):
    """Make a call, and compare it with the plain one."""
    got = static(*args)
    want = type(static).__mro__[1].forward(static, *args)
    np.testing.assert_allclose(got.array, want.array, rtol=RESULTS, atol=RESULTS)


def _sizes(static, i):
    check(static, sized(i))


def _argument(static, i):
    check(static, X, np.int64(i))  # a whole number of Python's that scales would be free


def _attribute(static, i):
    static.text = str(i)
    check(static, X)


def _float(static, i):
    check(static, X, np.longdouble(i))


NEW = {"size": _sizes, "argument": _argument, "attribute": _attribute, "NumPy number": _float}


@pytest.mark.filterwarnings("ignore:.*five of the last eight")
@pytest.mark.parametrize("kind", NEW)
def test_what_is_new_each_time_is_traced_ever_more_rarely(kind):
    static = sdbr.static_graph(Net())
    traced = []
    for i in range(1, 201):
        before = served(static)[0]
        NEW[kind](static, i)
        traced += [i] * (served(static)[0] - before)
    assert traced[:16] == list(range(1, 17))
    # At the 32nd all that there are might still be of use; building is paid for sooner. An
    # attribute is not in the key: once its schedules are gone, that is one that comes again.
    assert traced[16:] == {"size": [64, 128], "attribute": [64, 196]}.get(kind, [64])
    assert served(static) == (len(traced), 0, 200 - len(traced))
    assert set(static.schedule_manager.define_by_run_reasons) == {BACKING_OFF}
    assert static.schedule_manager.static_schedule is not None


@pytest.mark.filterwarnings("ignore:.*five of the last eight")
def test_with_room_the_32nd_is_tried_as_well():
    static = sdbr.static_graph(Net(), max_schedules=64)
    for i in range(1, 101):
        static(sized(i))
    assert served(static) == (18, 0, 82)
    static(sized(64))
    assert served(static) == (18, 1, 82)


@pytest.mark.filterwarnings("ignore:.*five of the last eight")
def test_a_hit_ends_it():
    static = sdbr.static_graph(Net(), max_schedules=64)
    for i in range(1, 31):
        static(sized(i))
    assert served(static) == (16, 0, 14)
    static(sized(3))
    for i in range(31, 40):
        static(sized(i))
    assert served(static)[0] == 17  # the 32nd, and no others: the first are not paid for yet
    for _ in range(96):
        static(sized(3))
    before = served(static)
    for i in range(40, 43):
        static(sized(i))
    after = served(static)
    assert after[0] - before[0] == 3 and after[2] == before[2]


@pytest.mark.filterwarnings("ignore:.*five of the last eight")
def test_what_stays_at_last_is_static_again():
    """A size that comes again is traced although sizes before it were new each time."""
    static = sdbr.static_graph(Net())
    for i in range(1, 101):
        static(sized(i))
    for _ in range(40):
        check(static, sized(200))
    before = served(static)
    for _ in range(10):
        check(static, sized(200))
    traces, replays, plain = served(static)
    assert (traces, replays, plain) == (before[0], before[1] + 10, before[2])


@pytest.mark.filterwarnings("ignore:.*five of the last eight")
def test_one_that_hits_is_not_disturbed_by_those_that_do_not():
    """Every second call has a new size; the others replay, and the new ones are soon given up."""
    static = sdbr.static_graph(Net())
    for i in range(200):
        check(static, sized(3 if i % 2 else 10 + i))
    traces, replays, plain = served(static)
    assert replays == 99
    assert traces <= 20 and traces + replays + plain == 200


@pytest.mark.filterwarnings("ignore:.*(five of the last eight|max_schedules)")
def test_of_ragged_batches_those_that_come_often_replay():
    rng = np.random.RandomState(0)
    static = sdbr.static_graph(Net())
    sizes = [int(rng.randint(1, 9) if rng.rand() < 0.8 else rng.randint(9, 41)) for _ in range(400)]
    for n in sizes:
        static(sized(n))
    before = served(static)
    for n in sizes:
        static(sized(n))
    traces, replays, plain = np.subtract(served(static), before)
    assert replays > 0.75 * len(sizes)
    assert traces < 0.05 * len(sizes)
    assert traces + replays + plain == len(sizes)


@pytest.mark.parametrize("n_sizes", [17, 40])
def test_more_sizes_in_turn_than_schedules(n_sizes):
    static = sdbr.static_graph(Net())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(6):
            before = static.schedule_manager.statistics.replays
            for n in range(1, n_sizes + 1):
                check(static, sized(n))
    assert static.schedule_manager.statistics.replays == before + 16
    traces, replays, plain = served(static)
    waited = static.schedule_manager.define_by_run_reasons[WAITING]  # of those that were traced
    assert traces == 16 and replays == 16 * 5 - waited and plain == 6 * n_sizes - 16 * 6 + waited
    assert waited <= 8  # until most calls have schedules; all after the first rounds are replays
    said = [str(w.message) for w in caught]
    assert sum("max_schedules=16" in text for text in said) == 1
    assert len(said) == 2  # the other one: five of the last eight


@pytest.mark.filterwarnings("ignore:.*(five of the last eight|max_schedules)")
def test_schedules_of_before_go_when_others_are_used():
    static = sdbr.static_graph(Net(), max_schedules=4)
    for first in (1, 11, 21):
        for _ in range(40):
            for n in range(first, first + 4):
                static(sized(n))
        before = served(static)
        for n in range(first, first + 4):
            check(static, sized(n))
        assert served(static) == (before[0], before[1] + 4, before[2])
        assert len(static.schedule_manager.schedules) == 4


def test_it_is_said_once_with_what_changes():
    static = sdbr.static_graph(Net())
    with pytest.warns(sdbr.SdbrWarning) as caught:
        for i in range(1, 100):
            static(X, np.int64(i))
    (said,) = [str(w.message) for w in caught]
    assert f"argument 1: {np.int64(7)!r} -> {np.int64(8)!r}" in said
    assert "only the 32nd, the 64th" in said


def test_it_is_said_where_it_never_was_five_of_eight():
    static = sdbr.static_graph(Net())
    with pytest.warns(sdbr.SdbrWarning, match="9 calls had no sch.*argument 1: ") as caught:
        for i in range(200):
            static(X, np.int64(1 if i % 3 else 10 + i))
    assert len(caught) == 1


@pytest.mark.filterwarnings("ignore:.*(five of the last eight|max_schedules)")
def test_whole_steps_back_off_too():
    model = sdbr.static_graph(L.Classifier(L.Linear(4, 3)))
    plain = L.Classifier(L.Linear(4, 3))
    plain.copyparams(model)
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam())
    optimizer.setup(model)
    reference = chainer.optimizers.Adam()
    reference.setup(plain)
    for i in range(1, 41):
        batch = sized(i), np.arange(i, dtype="i") % 3
        optimizer.update(model, *batch)
        reference.update(plain, *batch)
    assert served(model) == (16, 0, 24)
    for mine, theirs in zip(model.params(), plain.params(), strict=True):
        np.testing.assert_allclose(mine.array, theirs.array, rtol=GRADIENTS, atol=ROUNDINGS)


def test_the_fourth_schedule_that_fits_is_replayed_and_not_traced():
    static = sdbr.static_graph(Net())
    static(X)
    static(X)
    manager = static.schedule_manager
    ((key, (good,)),) = manager.schedules.items()
    bad = [good.on_backend(key) for _ in range(3)]
    manager.schedules[key] = [good, *bad]
    manager.runners.clear()
    replay = manager.replay

    def replay_of(schedule, *args):
        if schedule in bad:
            raise Retrace
        return replay(schedule, *args)

    manager.replay = replay_of
    check(static, X)
    assert served(static) == (1, 2, 0)
    assert manager.schedules[key] == [good]


def test_explain_shows_misses_and_back_off():
    static = sdbr.static_graph(Net())
    with pytest.warns(sdbr.SdbrWarning):
        for i in range(1, 41):
            static(X, np.int64(i))
    report = sdbr.explain(static)
    (facts,) = report.to_dict()["managers"]
    assert facts["back_off"] == {
        "missed": 40, "declined": 24, "in_a_row": 40, "next_trial": 64, "active": True,
    }  # fmt: skip
    text = str(report)
    assert "40 calls had no schedule, 24 of them ran define-by-run" in text
    assert "in a row by now 40, traced next: the 64th" in text
    assert f"define-by-run x 24: {BACKING_OFF}" in text


def test_the_row():
    back_off, counts, tried = BackOff(), Counts(), []
    for n in range(1, 5000):
        counts.calls = n
        back_off.settle(counts)
        if back_off.decide(n, n, None) is None:
            tried.append(n)
    # The 64th and the 128th: calls have not paid for the 32nd yet.
    assert tried == [*range(1, 17), 32, 256, 512, 1024, 2048, 3072, 4096]
    assert back_off.next_trial == 5120
    assert BackOff().next_trial == 32


class Counts:
    """What a rule asks statistics for."""

    def __init__(self):
        self.calls = self.replays = self.python_ops = 0


SEQUENCES = {
    "each twice": lambda i: i // 2,
    "each four times": lambda i: i // 4,
    "each ten times": lambda i: i // 10,
    "one new in ten": lambda i: i if i % 10 == 0 else -1,
    "every second new": lambda i: i if i % 2 else -1,
    "40 in turn": lambda i: i % 40,
    "200 in turn": lambda i: i % 200,
    "few at random": lambda i: int(np.random.RandomState(i).randint(20)),
    "many at random": lambda i: int(np.random.RandomState(i).randint(60)),
    "rarely the same": lambda i: int(np.random.RandomState(i).geometric(0.02)),
}


@pytest.mark.parametrize("builds", [False, True])
@pytest.mark.parametrize("name", SEQUENCES)
def test_traces_after_the_first_calls_are_paid_for(name, builds):
    """By 24 replays or 160 calls each; few are tried beyond, and paid for before there are more."""
    back_off, counts, traced, later = BackOff(), Counts(), set(), 0
    for i in range(1, 3001):
        what = SEQUENCES[name](i)
        counts.calls = i
        if what in traced:
            counts.replays += 1
            continue
        back_off.will_try(counts)
        if back_off.decide(what, i, None) is None:
            traced.add(what)
            later += i > 16
            if builds:
                counts.replays += 1
                back_off.built(what)
            else:
                back_off.ended(what)
        paid = i / 160 + counts.replays / 24
        tried = 3 + max(0, np.log2(i / 16)) + i / 1024
        assert later <= (2 if builds else 1) * (paid + tried), i


def test_what_comes_again_and_again_is_traced_at_last():
    """Calls alone pay for it, where nothing is replayed."""
    back_off, counts, traced = BackOff(), Counts(), []
    for i in range(1, 2401):
        counts.calls = i
        back_off.will_try(counts)
        what = i if i <= 40 else i % 50
        if what not in traced and back_off.decide(what, i, None) is None:
            traced.append(what)
            back_off.ended(what)
    assert len(traced) > 16 + 12


def test_what_is_used_no_more_than_what_is_kept_drives_nothing_out():
    back_off = BackOff()
    assert back_off.decide("a", 1, None) is None
    assert back_off.decide("b", 2, 1) == FULL_AND_NEW
    assert back_off.decide("b", 10, 16) == FULL
    assert back_off.decide("b", 18, 17) is None


def backed_off(n=40):
    """A static net that backs off: so many sizes have come once."""
    static = sdbr.static_graph(Net())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(n):
            static(sized(1 + i))
    assert static.schedule_manager.back_off.backs_off
    return static, static.schedule_manager


def found_in_full(monkeypatch, manager, call):
    """How often the schedules are gone through."""
    seen = []
    real = manager.find
    monkeypatch.setattr(manager, "find", lambda *a: seen.append(a) or real(*a))
    call()
    monkeypatch.undo()
    return len(seen)


def test_what_has_never_come_is_declined_without_a_look_up(monkeypatch):
    static, manager = backed_off()
    before = manager.back_off.to_dict(), manager.define_by_run_reasons[BACKING_OFF]
    assert found_in_full(monkeypatch, manager, lambda: static(sized(100))) == 0
    after = manager.back_off.to_dict(), manager.define_by_run_reasons[BACKING_OFF]
    for name in ("missed", "declined", "in_a_row"):
        assert after[0][name] == before[0][name] + 1
    assert after[1] == before[1] + 1


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
def test_what_has_a_schedule_or_has_come_before_is_looked_up(monkeypatch):
    static, manager = backed_off()
    static(sized(100))
    assert found_in_full(monkeypatch, manager, lambda: static(sized(3)))
    for paid in (False, True):  # what a trace could not be paid for is not looked up
        manager.back_off._debt = -1000 if paid else 1000
        for n in (30, 100):
            seen = found_in_full(monkeypatch, manager, lambda n=n: static(sized(n)))
            assert bool(seen) == paid
    traced = next(reversed(manager.schedules)).arrays[0][0][0]
    replays = manager.statistics.replays
    for _ in range(3):
        static(sized(traced))
    assert manager.statistics.replays == replays + 3


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
def test_what_was_declined_unseen_is_known_when_it_comes_again():
    static, manager = backed_off()
    manager.back_off._debt = 0  # replays have paid
    static(sized(100))
    made = served(static)[0]
    static(sized(100))
    assert served(static)[0] == made + 1


def test_trials_go_on_without_look_ups():
    static, manager = backed_off()
    made, missed = served(static)[0], manager.back_off.missed
    for i in range(128 - missed):
        static(sized(200 + i))
    assert served(static)[0] == made + 2  # the 64th and the 128th


def test_arguments_of_other_kinds_are_looked_up(monkeypatch):
    static, manager = backed_off()
    x = sized(300)
    found_in_full(monkeypatch, manager, lambda: static(x, 1.5))
    assert found_in_full(monkeypatch, manager, lambda: static(x, m=np.longdouble(2)))


def test_signatures_tell_what_keys_tell():
    from sdbr.call._spec import signature

    x, v = sized(3), chainer.Variable(sized(3))
    other = chainer.Variable(sized(3), requires_grad=False)
    calls = [
        ((x,), {}), ((sized(4),), {}), ((x.astype("d"),), {}), ((v,), {}), ((other,), {}),
        ((x, 1), {}), ((x, True), {}), ((x, 2), {}), ((x, 1.0), {}), ((x, "1"), {}),
        ((x, None), {}), ((x,), {"m": 1}), ((x,), {"n": 1}), ((x, x), {}), (([x, x],), {}),
        (((x, x),), {}), (({"a": x},), {}), (({"b": x},), {}), ((), {}),
    ]  # fmt: skip
    found = [signature(*call) for call in calls]
    assert None not in found and len(set(found)) == len(found)
    assert signature((x, 1.0), {}) == signature((x, 2.0), {})
    assert signature((object(),), {}) is None


def test_what_is_told_of_sizes_and_of_others():
    """Padding mends sizes, and does nothing for a number."""
    static = sdbr.static_graph(Net())
    with pytest.warns(sdbr.SdbrWarning, match="five of the last eight") as caught:
        for i in range(1, 12):
            _sizes(static, i)
    text = str(caught[0].message)
    assert "Pad batches to few shapes" in text and "sdbr.warm_up" in text
    assert "static_code" not in text and "as an array" not in text
    for new in (_argument, _attribute):
        static = sdbr.static_graph(Net())
        with pytest.warns(sdbr.SdbrWarning, match="five of the last eight") as caught:
            for i in range(1, 12):
                new(static, i)
        text = str(caught[0].message)
        assert "Pad" not in text and "an array, or put" in text
