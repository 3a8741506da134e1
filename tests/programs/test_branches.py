"""Independent branches of a program that run at the same time."""

from __future__ import annotations

import sys
from array import array

import sdbr
from sdbr.backends.cpu.passes._stretches import Stretches
from sdbr.base.errors import ValidationError
from sdbr.program import memory
from sdbr.program.builder import Builder
from sdbr.program.program import assemble

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_near
from tests.harness.models import Net
from tests.tolerances import RESULTS


@pytest.fixture
def overlaps(monkeypatch):
    """Every memory plan that is made is checked."""
    plan = memory.plan

    def checked(instructions, table, kept=(), *args, **kwargs):
        arena = plan(instructions, table, kept, *args, **kwargs)
        assert memory.check_overlaps(instructions, kept) == []
        return arena

    monkeypatch.setattr(memory, "plan", checked)


@pytest.fixture
def eager(monkeypatch, overlaps):
    """Branches wherever there are any, however little they save."""
    module = sys.modules["sdbr.backends.cpu.passes.branches"]
    monkeypatch.setattr(module, "LEAST_GAIN", 0)
    monkeypatch.setattr(module, "COST", 0)


def actor_critic(n=64):
    def forward(self, x, action, advantage, value):
        policy = self.pi(F.tanh(self.a2(F.tanh(self.a1(x)))))
        critic = self.v(F.tanh(self.c2(F.tanh(self.c1(x)))))
        log_p = F.select_item(F.log_softmax(policy), action)
        return F.mean_squared_error(critic[:, 0], value) - F.mean(log_p * advantage)

    links = {name: L.Linear(n, n) for name in ("a2", "c2")}
    links.update(a1=L.Linear(8, n), c1=L.Linear(8, n), pi=L.Linear(n, 4), v=L.Linear(n, 1))
    return Net(forward, **links)


def transitions(rng, batch=64):
    floats = [rng.randn(batch).astype("f") for _ in range(2)]
    return rng.randn(batch, 8).astype("f"), rng.randint(0, 4, batch).astype("i"), *floats


def blocks(depth=4, seed=0):
    """A network of random blocks of branches that join by addition, product or concatenation."""
    rng = np.random.RandomState(seed)
    plan = [
        (rng.randint(2, 5), rng.randint(1, 4, 4), rng.randint(3), rng.randint(4, size=(4, 4)))
        for _ in range(depth)
    ]
    functions = (F.tanh, F.sigmoid, lambda x: F.softmax(x) * 2, lambda x: x + F.exp(-x * x))

    def forward(self, x, t):
        h = x
        for n, lengths, join, picks in plan:
            parts = []
            for b in range(n):
                y = h
                for k in range(lengths[b]):
                    y = functions[picks[b, k]](self.l(y) if (b + k) % 2 else y * 0.5)
                parts.append(y)
            if join == 2:
                h = F.concat(parts)[:, :16]
            else:
                h = sum(parts[1:], parts[0]) if join else parts[0] * parts[-1]
        return F.mean_squared_error(h, t)

    return Net(forward, l=L.Linear(16, 16))


def train(make, data, threads, steps=4):
    np.random.seed(0)
    rng = np.random.RandomState(1)
    with chainer.using_config("sdbr_num_threads", threads):
        model = sdbr.static_graph(make())
        optimizer = sdbr.static_optimizer(chainer.optimizers.Adam())
        optimizer.setup(model)
        for _ in range(steps):
            optimizer.update(model, *data(rng))
        statistics = model.schedule_manager.statistics
        assert (statistics.steps, statistics.python_ops) == (steps - 1, 0)
        step = model.schedule_manager.static_schedule.programs["step"]
    return [p.array for p in model.params()], forks(step)


def forks(program):
    return sum(line.split()[1] == "fork" for line in program.disassemble().splitlines())


def assert_same(got, want):
    for x, y in zip(got, want, strict=True):
        np.testing.assert_array_equal(x, y)


def test_actor_and_critic_run_at_the_same_time(eager):
    want, n = train(actor_critic, transitions, 1)
    assert n == 0
    for threads in (2, 3):
        got, n = train(actor_critic, transitions, threads)
        assert n >= 2  # forward and backward
        assert_same(got, want)


def test_branches_that_save_little_are_left_alone():
    assert train(actor_critic, transitions, 2)[1] == 0


def test_pass_can_be_switched_off(eager):
    with chainer.using_config("sdbr_disabled_passes", "branches"):
        assert train(actor_critic, transitions, 2)[1] == 0


@pytest.mark.parametrize("seed", range(12))
def test_random_blocks(seed, eager):
    def data(rng):
        return rng.randn(6, 16).astype("f"), rng.randn(6, 16).astype("f")

    want, _ = train(lambda: blocks(seed=seed), data, 1)
    got, n = train(lambda: blocks(seed=seed), data, 3)
    assert n > 0
    assert_same(got, want)


def test_branches_that_write_parts_of_one_array(eager):
    def forward(self, x):
        return F.concat([F.softmax(F.softmax(x)), F.log_softmax(F.softmax(-x))])

    def run(threads):
        model = sdbr.static_graph(Net(forward))
        with chainer.using_config("sdbr_num_threads", threads), chainer.no_backprop_mode():
            ys = [model(chainer.Variable(x)).array for x in xs]
            program = model.schedule_manager.static_schedule.programs["forward"]
        return ys, forks(program)

    xs = np.random.RandomState(0).randn(4, 300, 64).astype("f")
    want, _ = run(1)
    got, n = run(2)
    assert n == 1
    assert_same(got, want)


def test_the_reference_gets_no_forks_whichever_backend_comes_first(eager):
    def forward(self, x):
        return F.concat([F.softmax(F.softmax(x)), F.log_softmax(F.softmax(-x))])

    x = chainer.Variable(np.random.RandomState(0).randn(300, 64).astype("f"))
    for order in (("cython", "numpy", "cython"), ("numpy", "cython", "numpy")):
        model = sdbr.static_graph(Net(forward))
        found = {}
        with chainer.using_config("sdbr_num_threads", 2), chainer.no_backprop_mode():
            for backend in order * 2:
                with chainer.using_config("sdbr_backend", backend):
                    y = model(x)
                    assert_near(y.array, forward(None, x).array, RESULTS, backend)
                    program = model.schedule_manager.static_schedule.programs["forward"]
                    assert found.setdefault(backend, program) is program
        assert {backend: forks(p) for backend, p in found.items()} == {"cython": 1, "numpy": 0}
        assert model.schedule_manager.statistics.traces == 1


def test_draws_and_indices_from_data_stay_in_their_place(eager):
    def forward(self, x, t):
        a, b = F.dropout(F.tanh(x)), F.dropout(F.sigmoid(x))
        return F.sum(F.select_item(a, t) + F.select_item(b, t))

    def data(rng):
        return rng.randn(5, 4).astype("f"), rng.randint(0, 4, 5).astype("i")

    def make():
        return Net(lambda self, x, t: forward(self, self.l(x), t), l=L.Linear(4, 4))

    np.random.seed(0)
    want, _ = train(make, data, 1)
    drawn = np.random.rand()
    got, _ = train(make, data, 2)
    assert np.random.rand() == drawn
    assert_same(got, want)


def test_fork_must_lie_within_the_program():
    b = Builder()
    x = b.table.bound((3,), "f4", "x")
    y = b.table.bound((3,), "f4", "y")
    b.emit("fork", [], [], (1, 1, 0, 0))
    b.emit("exp", [x], [y])
    with pytest.raises(ValidationError, match=r"op 0 \(fork\): branches of \[1, 1, 0, 0\]"):
        assemble(b.instructions, b.table, "short").validate()


def pieces(uses, start, end):
    """Sets of instructions that depend on each other, found the long way."""
    sets = []
    for i in range(start, end):
        mine = [u for u in uses if u[0] == i]
        met = {
            k
            for _, root, lo, hi, writes in mine
            for k, other, low, high, wrote in uses
            if start <= k < i and other == root and low < hi and lo < high and (writes or wrote)
        }
        joined = [s for s in sets if s & met]
        sets = [s for s in sets if not s & met] + [{i}.union(*joined)]
    return sorted(map(sorted, sets), key=lambda s: s[-1])


def saved(sets, costs, threads, cost):
    """What these sets save on threads."""
    if len(sets) < 2:
        return 0.0
    bins = [0.0] * threads
    for price in sorted((sum(costs[i] for i in s) for s in sets), reverse=True):
        bins[bins.index(min(bins))] += price
    return sum(bins) - max(bins) - cost


@pytest.mark.parametrize("seed", range(20))
def test_stretches_end_where_they_save_most(seed):
    rng = np.random.RandomState(seed)
    n, longest, threads, least, cost = 40, 12, 2 + seed % 3, 5.0, 2.0
    uses = []
    for i in range(n):
        for writes in [0] * rng.randint(3) + [1] * rng.randint(1, 3):
            lo = rng.randint(6)
            uses.append((i, rng.randint(12), lo, lo + rng.randint(3), writes))
    costs = [float("inf") if rng.rand() < 0.05 else float(rng.randint(1, 9)) for _ in range(n)]
    found = 0
    stretches = Stretches(array("q", np.ravel(uses).tolist()), costs, threads, longest, cost)
    for start in range(n):
        want, most = -1, least
        for end in range(start + 1, min(n, start + longest) + 1):
            if costs[end - 1] == float("inf"):
                break
            gain = saved(pieces(uses, start, end), costs, threads, cost)
            if gain > most:
                want, most = end, gain
            elif want > 0 and gain <= 0:
                break
        assert stretches.best_end(start, least) == want
        if want > 0:
            found += 1
            sets = pieces(uses, start, want)
            assert stretches.sets(start, want) == [(sum(costs[i] for i in s), s) for s in sets]
    assert found
