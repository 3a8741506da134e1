"""Rows 10 and 11: counters that say where an array is written, or which element is read."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_near
from tests.harness.twins import statistics_of
from tests.tolerances import GRADIENTS, RESULTS

D, ROWS = 4, 7
SCHEDULE = np.linspace(1, 2, 40).astype("f")


class Counting(chainer.Chain):
    """A layer, rings of arrays, and where they are written next."""

    def __init__(self, forward):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(D, D, initialW=np.random.RandomState(1).randn(D, D).astype("f"))
        self.rows = np.zeros((ROWS, D), "f")
        self.kinds = np.zeros(ROWS, "i")
        self.grid = np.ones((3, D), "f")
        self.counts = np.ones(5, "f")
        self.rates = np.linspace(0.1, 0.9, 30)
        self.i = self.n = 0
        self._forward = forward

    def forward(self, x):
        return F.sum((self.l(x) * self._forward(self, x)) ** 2)


def ring(self, x):
    self.rows[self.i % ROWS] = x[0]
    self.i += 1
    return self.rows.mean(0)


def ring_of_two_arrays(self, x):
    self.rows[self.i], self.kinds[self.i] = x[0], 1
    self.i = (self.i + 1) % ROWS
    return self.rows.mean(0) + self.kinds.astype("f").mean()


def every_row(self, x):
    for row in x:
        self.rows[self.i % ROWS] = row
        self.i += 1
    return self.rows.mean(0)


def element(self, x):
    self.grid[self.i % 3, self.i % D] = x[0, 0]
    self.i += 1
    return self.grid.sum(0)


def from_the_end(self, x):
    self.rows[-1 - self.i % ROWS] = x[0]
    self.i += 1
    return self.rows.mean(0)


def parts_of_rows(self, x):
    self.rows[self.i % ROWS, 1:] = x[0, 1:]
    self.rows[self.i % ROWS, ::2] = 3
    self.i += 1
    return self.rows.mean(0)


def counted(self, x):
    self.counts[self.i % 5] += 1
    self.i += 1
    return self.counts.mean()


def element_of_what_the_call_makes(self, x):
    h = np.zeros((len(x), ROWS), "f")
    h[:, self.i % ROWS] = 1
    self.i += 1
    return 1 + h[:, 3:]


def rate(self, x):
    self.i += 1
    return self.rates[self.i].astype("f") * x


def rate_of_a_global(self, x):
    self.i += 1
    return SCHEDULE[self.i]


def written_where_it_is_read(self, x):
    before = self.counts[self.i % 5]
    self.counts[self.i % 5] = before * 0.5 + x[0, 0]
    self.i += 1
    return before + self.counts.sum()


def filled_up(self, x):
    self.rows[self.i % ROWS] = x[0]
    self.i += 1
    self.n = min(self.n + 1, ROWS)
    return self.rows.sum(0) if self.n < ROWS else self.rows.mean(0)


PROGRAMS = [
    ring, ring_of_two_arrays, every_row, element, from_the_end, parts_of_rows, counted,
    element_of_what_the_call_makes, rate, rate_of_a_global, written_where_it_is_read, filled_up,
]  # fmt: skip


def x_of(i: int) -> np.ndarray:
    return np.random.RandomState(i).randn(5, D).astype("f")


def state(model) -> dict:
    found = {name: x.copy() for name, x in vars(model).items() if type(x) is np.ndarray}
    found.update((name, p.array.copy()) for name, p in model.namedparams())
    return {**found, "i": np.array(model.i), "n": np.array(model.n)}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("forward", PROGRAMS, ids=lambda f: f.__name__)
def test_each_replay_writes_where_the_counter_is_by_then(forward, backend):
    plain, static = Counting(forward), sdbr.static_graph(Counting(forward), backend=backend)
    for i in range(20):
        with chainer.using_config("sdbr_audit", 1.0 if i % 2 else "off"):
            for model in (plain, static):
                y = model(x_of(i))
                model.cleargrads()
                y.backward()
            assert_near(static.l.W.grad, plain.l.W.grad, GRADIENTS, f"call {i}")
            for name, x in state(plain).items():
                assert_near(state(static)[name], x, RESULTS, f"call {i}: {name}")
            assert type(static.i) is int
    statistics = statistics_of(static)
    assert statistics.traces == (3 if forward is filled_up else 1)
    assert statistics.replays == 20 - statistics.traces and not statistics.python_ops
    assert not static.schedule_manager.audits.failed


@pytest.mark.parametrize("forward", [ring, counted, rate], ids=lambda f: f.__name__)
def test_whole_steps(forward):
    plain, static = Counting(forward), sdbr.static_graph(Counting(forward), on_dynamic="raise")
    one = chainer.optimizers.SGD(1e-3).setup(plain)
    other = sdbr.static_optimizer(chainer.optimizers.SGD(1e-3)).setup(static)
    for i in range(16):
        one.update(plain, x_of(i))
        other.update(static, x_of(i))
        for name, x in state(plain).items():
            assert_near(state(static)[name], x, GRADIENTS, f"step {i}: {name}")
    assert statistics_of(static).steps == 15


def beyond(self, x):
    self.rows[self.i] = x[0]
    self.i += 1
    return self.rows.mean(0)


def test_beyond_the_end():
    plain, static = Counting(beyond), sdbr.static_graph(Counting(beyond))
    for i in range(ROWS):
        assert_near(static(x_of(i)).array, plain(x_of(i)).array, RESULTS, f"call {i}")
    for model in (plain, static):
        with pytest.raises(IndexError):
            model(x_of(0))
    for name, x in state(plain).items():
        assert_near(state(static)[name], x, RESULTS, name)
    assert statistics_of(static).replays >= ROWS - 1


def row_read(self, x):
    self.i += 1
    row = self.rows[self.i % ROWS]
    row += x[0]
    return self.rows.sum(0) + row


def test_a_row_that_is_read_is_a_view_and_a_way_of_its_own():
    plain, static = Counting(row_read), sdbr.static_graph(Counting(row_read))
    for i in range(20):
        assert_near(static(x_of(i)).array, plain(x_of(i)).array, RESULTS, f"call {i}")
    assert statistics_of(static).traces > 2
