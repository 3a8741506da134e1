"""Steps and calls of several shapes, ways and loss functions in turn: each finds its runner."""

from __future__ import annotations

import gc
import weakref
from contextlib import nullcontext

import sdbr
from sdbr.call.step.whole import STEPS
from sdbr.schedule.schedule import Schedule

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer import optimizers

from tests.harness.comparison import BACKENDS, assert_all_near, gradients_of
from tests.harness.steps import alike, trained_pairs, warmed
from tests.harness.threads import in_threads
from tests.tolerances import GRADIENTS, RESULTS, SUMS


class Net(chainer.Chain):
    """A loss; `scale` and the first number of a batch decide about it where that is asked for."""

    def __init__(self, asks=False):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 5)
            self.l2 = L.Linear(5, 3)
        self.asks = asks
        self.scale = 1

    def forward(self, x, t, factor=1.0):
        h = F.tanh(self.l1(x))
        if self.asks and x[0, 0] > 1:
            h = F.relu(h) * float(int(x[0, 0]))
        h = F.dropout(h, 0.0) * self.scale * factor
        return F.softmax_cross_entropy(self.l2(h), t)


def batch(rows, first=None, kind="f", labels="i"):
    rng = np.random.RandomState(rows)
    x = rng.randn(rows, 4).astype(kind)
    x[0, 0] = 0 if first is None else first
    return x, rng.randint(0, 3, rows).astype(labels)


def pairs(asks=False, rule=optimizers.Adam, **options):
    return trained_pairs(lambda: Net(asks), rule, **options)


def look_ups(model, monkeypatch):
    """A list that grows where a call of `model` is not found by the table."""
    manager = model.schedule_manager
    found, find = [], manager.find
    monkeypatch.setattr(
        manager, "find", lambda *args: found.append(args) or find(*args), raising=True
    )
    return found


@pytest.mark.parametrize("n", [2, 64])
def test_sizes_of_steps_in_turn(n, monkeypatch):
    (plain, reference), (static, optimizer) = pairs(max_schedules=64)
    givens = [batch(2 + i) for i in range(n)]

    def run(given):
        reference.update(plain, *given)
        optimizer.update(static, *given)

    warmed(static, run, givens)
    found = look_ups(static, monkeypatch)
    before = static.schedule_manager.statistics.steps
    for i in np.random.RandomState(0).permutation(np.tile(np.arange(n), 3)):
        run(givens[i])
    alike(static, plain)
    assert static.schedule_manager.statistics.steps == before + 3 * n
    assert not found


@pytest.mark.parametrize("keep_graph", [False, True])
@pytest.mark.parametrize("n", [2, 20])
def test_sizes_of_calls_in_turn(n, keep_graph, monkeypatch):
    (plain, _), (static, _) = pairs(max_schedules=64)
    givens = [batch(2 + i) for i in range(n)]

    def run(given):
        losses = []
        for model in (plain, static):
            with nullcontext() if keep_graph else chainer.no_backprop_mode():
                losses.append(model(*given))
            if keep_graph:
                model.cleargrads()
                losses[-1].backward()
        np.testing.assert_allclose(losses[1].array, losses[0].array, RESULTS)

    warmed(static, run, givens)
    found = look_ups(static, monkeypatch)
    before = static.schedule_manager.statistics.replays
    for i in np.random.RandomState(0).permutation(np.tile(np.arange(n), 3)):
        run(givens[i])
        if keep_graph:
            assert_all_near(gradients_of(static), gradients_of(plain), GRADIENTS, "gradient")
    assert static.schedule_manager.statistics.replays == before + 3 * n
    assert not found


def replaced(model, optimizer):
    for p in model.params():
        p.array = p.array * np.float32(0.5)


def in_place(model, optimizer):
    for p in model.params():
        p.array[...] *= np.float32(0.5)


def cleared(model, optimizer):
    model.cleargrads()


def without(model, optimizer):
    model.l1.W.grad = None


def given_by_the_user(model, optimizer):
    for p in model.params():
        p.grad = np.ones_like(p.array)


def kept(model, optimizer):
    model.kept = [p.grad for p in model.params()]


def scaled(model, optimizer):
    model.scale = 3 - model.scale


def slower(model, optimizer):
    optimizer.alpha *= 0.5


def frozen(model, optimizer):
    model.l1.disable_update()


def decaying(model, optimizer):
    optimizer.add_hook(chainer.optimizer_hooks.WeightDecay(0.1))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "change",
    [
        replaced, in_place, cleared, without, given_by_the_user, kept, scaled, slower, frozen,
        decaying,
    ],
)  # fmt: skip
def test_what_changes_between_steps_of_two_sizes(change, backend):
    (plain, reference), (static, optimizer) = pairs()
    givens = [batch(3), batch(6)]
    with chainer.using_config("sdbr_backend", backend):
        for i in range(24):
            for model, of in ((plain, reference), (static, optimizer)):
                if i % 5 == 4 and (change is not decaying or i == 14):
                    change(model, of)
                of.update(model, *givens[i % 2])
            alike(static, plain)
            if hasattr(static, "kept"):  # not written to since
                for mine, theirs in zip(static.kept, plain.kept, strict=True):
                    np.testing.assert_allclose(mine, theirs, SUMS, SUMS)
    assert static.schedule_manager.statistics.steps >= 10


@pytest.mark.parametrize("step", [True, False])
def test_kinds_of_calls_in_turn(step):
    """Dtypes, Variables, the order of names, numbers, modes and hooks beside two sizes."""
    (plain, reference), (static, optimizer) = pairs(max_schedules=64)
    (x, t), (y, u) = batch(3), batch(6)
    kinds = [
        ((x, t), {}),
        ((y, u), {}),
        ((x, t.astype("l")), {}),
        ((chainer.Variable(x), t), {}),
        ((x,), {"t": t}),
        ((), {"x": y, "t": u}),
        ((), {"t": u, "x": y}),
        ((x, t), {"factor": 2.0}),
        ((x, t), {"factor": 3.0}),
        ((x, t, 1), {}),
        ((x, t, True), {}),
        ((x, t, 2), {}),
    ]
    modes = [{}, {"train": False}, {"dtype": np.float64}, {"enable_backprop": True}]
    rng = np.random.RandomState(0)
    for _ in range(200):
        args, kwargs = kinds[rng.randint(len(kinds))]
        mode = modes[max(0, rng.randint(-4, 4))]
        hooked = rng.randint(12) == 0
        seen = []
        for model, of in ((plain, reference), (static, optimizer)):
            with chainer.function_hooks.TimerHook() if hooked else nullcontext() as hook:
                for name, value in mode.items():
                    setattr(chainer.config, name, value)
                try:
                    if step:
                        of.update(model, *args, **kwargs)
                    else:
                        seen.append(model(*args, **kwargs).array)
                finally:
                    for name in mode:
                        delattr(chainer.config, name)
            if hooked:
                assert len(hook.call_history) > 3
        if step:
            alike(static, plain)
        else:
            np.testing.assert_allclose(*seen, RESULTS)
    statistics = static.schedule_manager.statistics
    assert statistics.replays >= 90 and statistics.traces < 60


def test_an_attribute_and_a_size_in_turn():
    """Guards tell apart what looks the same."""
    (plain, reference), (static, optimizer) = pairs()
    for i in range(40):
        for model, of in ((plain, reference), (static, optimizer)):
            model.scale = 1 + i // 2 % 2
            of.update(model, *batch(3 + i % 2))
        alike(static, plain)
    assert static.schedule_manager.statistics.steps >= 30


@pytest.mark.parametrize("step", [True, False])
@pytest.mark.parametrize(
    ("ways", "misses"),
    [([0, 2], 0), ([0, 2, 3, 4], 0), ([0, 0, 0, 0, 0, 2], 1), ([2, 2, 0, 2, 2, 2, 3, 2], 2)],
)
def test_the_way_that_followed_before_is_tried_first(ways, misses, step, monkeypatch):
    """A wrong guess costs a run up to its question."""
    (plain, reference), (static, optimizer) = pairs(asks=True)
    givens = [batch(3, first) for first in ways]

    def run(given):
        if step:
            reference.update(plain, *given)
            optimizer.update(static, *given)
            return alike(static, plain)
        with chainer.no_backprop_mode():
            return np.testing.assert_allclose(static(*given).array, plain(*given).array, RESULTS)

    warmed(static, run, givens * 2)
    for given in givens * 3:
        run(given)
    met, after = [], Schedule.after
    monkeypatch.setattr(Schedule, "after", lambda *args: met.append(args) or after(*args))
    found = look_ups(static, monkeypatch)
    for given in givens * 5:
        run(given)
    assert not found
    assert len(met) == 5 * misses


def test_two_loss_functions_of_one_optimizer_in_turn(monkeypatch):
    class Two(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l = L.Linear(4, 3)

        @sdbr.static_graph
        def one(self, x, t):
            return F.softmax_cross_entropy(self.l(x), t)

        @sdbr.static_graph
        def other(self, x, t):
            return F.sum(self.l(x) ** 2)

    static, plain = Two(), Two()
    plain.copyparams(static)
    optimizer = sdbr.static_optimizer(optimizers.SGD(0.01)).setup(static)
    reference = optimizers.SGD(0.01).setup(plain)
    found = None
    for i in range(30):
        if i == 20:
            found = [
                look_ups(type("", (), {"schedule_manager": m})(), monkeypatch)
                for m in static.__dict__["_sdbr_managers"].values()
            ]
        name, given = ("one", "other")[i % 2], batch(3)
        optimizer.update(getattr(static, name), *given)
        with chainer.using_config("use_static_graph", False):
            reference.update(getattr(plain, name), *given)
        alike(static, plain)
    assert found == [[], []]


def test_dropped_schedules_leave_the_table():
    (plain, reference), (static, optimizer) = pairs(max_schedules=2)
    sizes = [2, 3] * 6 + [4, 5] * 12 + [2] * 12
    for i, size in enumerate(sizes):
        with chainer.using_config("enable_backprop", i % 4 != 3):
            if i % 4 == 3:
                given = batch(size)
                np.testing.assert_allclose(static(*given).array, plain(*given).array, RESULTS)
                continue
            reference.update(plain, *batch(size))
            optimizer.update(static, *batch(size))
        alike(static, plain)
        manager = static.schedule_manager
        there = [s for group in manager.schedules.values() for s in group]
        assert len(there) <= 2
        assert {id(r.schedule) for r in manager.runners} <= set(map(id, there))
    static.schedule_manager.clear()
    assert len(static.schedule_manager.runners) == 0
    for _ in range(4):
        reference.update(plain, *batch(2))
        optimizer.update(static, *batch(2))
        alike(static, plain)
    assert len(optimizer.__dict__[STEPS]) == 1


def test_a_runner_that_goes_while_it_serves_does_not_come_back():
    clearing = []

    @sdbr.static_code
    def clear():
        if clearing:
            f.schedule_manager.clear()

    @sdbr.static_graph
    def f(x):
        clear()
        return F.relu(x) * scale.n

    scale = type("Scale", (), {"n": 2})()
    x = np.ones((3, 4), "f")
    with chainer.no_backprop_mode():
        for i in range(12):
            scale.n = 2 + i // 2 % 2
            np.testing.assert_allclose(f(x).array, x * scale.n)
        runners = f.schedule_manager.runners
        assert len(runners) == 2
        clearing.append(True)
        f(x)
        assert len(runners) == 0 and runners.likely is None


def test_dropped_schedules_of_calls_leave_the_table():
    (plain, _), (static, _) = pairs(max_schedules=2)
    manager, ever = static.schedule_manager, 0
    with chainer.no_backprop_mode():
        for size in [2, 3] * 8 + [4, 5] * 20 + [2] * 20:
            given = batch(size)
            np.testing.assert_allclose(static(*given).array, plain(*given).array, RESULTS)
            there = {id(s) for group in manager.schedules.values() for s in group}
            assert {id(r.schedule) for r in manager.runners} <= there
            ever = max(ever, len(manager.runners))
    assert ever == 2 and manager.statistics.traces >= 4


def test_an_attribute_and_a_size_of_calls_in_turn():
    (plain, _), (static, _) = pairs()
    before = None
    with chainer.no_backprop_mode():
        for i in range(60):
            given = batch(3 + i % 2)
            plain.scale = static.scale = 1 + i // 2 % 2
            np.testing.assert_allclose(static(*given).array, plain(*given).array, RESULTS)
            if i == 30:
                before = static.schedule_manager.statistics.replays
    assert static.schedule_manager.statistics.replays == before + 29


def test_new_variables_of_two_sizes_are_found(monkeypatch):
    """What a call looks like is not which objects it is given."""
    (plain, _), (static, _) = pairs()

    def run(rows):
        x, t = batch(rows)
        given = chainer.Variable(x.copy()), t.copy()
        np.testing.assert_allclose(static(*given).array, plain(*given).array, RESULTS)

    warmed(static, run, [3, 6])
    found = look_ups(static, monkeypatch)
    for rows in np.random.RandomState(0).randint(0, 2, 40):
        run(3 + 3 * rows)
    assert not found


def test_models_and_optimizers_die():
    alive = []
    for _ in range(2):
        _, (static, optimizer) = pairs(asks=True)
        for i in range(40):
            given = batch(3 + i % 2, 2 * (i // 2 % 2))
            optimizer.update(static, *given)
            with chainer.no_backprop_mode():
                static(*given)
        table = static.schedule_manager.runners
        assert len(table) == 4 and len(optimizer.__dict__[STEPS]) == 4
        alive += [weakref.ref(static), weakref.ref(optimizer)]
        alive += [weakref.ref(r.schedule) for r in table]
        del static, optimizer, table
    gc.collect()
    assert [ref() for ref in alive] == [None] * len(alive)


def test_an_optimizer_that_gets_another_model_lets_go_of_the_first():
    _, (static, optimizer) = pairs()
    for i in range(12):
        optimizer.update(static, *batch(3 + i % 2))
    gone = weakref.ref(static)
    other = sdbr.static_graph(Net())
    optimizer.setup(other)
    for i in range(12):
        optimizer.update(other, *batch(3 + i % 2))
    assert other.schedule_manager.statistics.steps >= 6
    del static
    gc.collect()
    assert gone() is None


def test_threads_with_sizes_of_their_own(monkeypatch):
    (plain, _), (static, _) = pairs()
    givens = [batch(3 + i) for i in range(6)]
    with chainer.no_backprop_mode():
        want = [plain(*given).array for given in givens]
        warmed(static, lambda given: static(*given), givens)
    wrong, done = [], []

    def run(seed):
        rng = np.random.RandomState(seed)
        with chainer.no_backprop_mode():
            for i in rng.randint(0, 6, 300):
                got = static(*givens[i]).array
                if not np.allclose(got, want[i], RESULTS):
                    wrong.append((i, got))
        done.append(seed)

    before = static.schedule_manager.statistics.replays
    in_threads(4, run)
    assert len(done) == 4 and not wrong
    assert static.schedule_manager.statistics.replays == before + 1200
