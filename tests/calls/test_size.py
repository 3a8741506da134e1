"""Long calls, and calls of many arguments."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
from chainer import functions as F

from tests.harness.comparison import assert_near, copy_of
from tests.harness.twins import POINTS
from tests.tolerances import LONG, RESULTS, SUMS


def test_a_chain_of_5000_ops():
    def f(x):
        for i in range(2500):
            x = F.tanh(x) + (0.5 if i % 2 else -0.5)
        return F.sum(x)

    static = sdbr.static_graph(f, on_dynamic="raise")
    for k in range(3):
        found = []
        for function in (f, static):
            x = chainer.Variable(POINTS + k)
            # The gradients become denormal on their way, some of them zero.
            with chainer.using_config("sdbr_flush_denormals", False):
                y = function(x)
                y.backward()
            found.append((copy_of(y.array), copy_of(x.grad)))
        assert_near(found[1][0], found[0][0], SUMS, "output")
        assert_near(found[1][1], found[0][1], LONG, "gradient")
    assert static.schedule_manager.statistics.replays == 2
    assert len(static.schedule_manager.static_schedule.trace.nodes) == 5001
    assert len(str(sdbr.explain(static)).splitlines()) <= 40


def test_a_thousand_arguments():
    static = sdbr.static_graph(lambda *xs, **more: sum(xs) + sum(more.values()))
    xs = [np.full(2, i, "f") for i in range(500)]
    more = {f"x{i}": np.full(2, i, "f") for i in range(500)}
    for _ in range(3):
        assert_near(static(*xs, **more), np.full(2, 2 * sum(range(500)), "f"), RESULTS, "sum")
