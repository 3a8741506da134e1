"""Calls that nobody can watch, under a debugger say, run define-by-run until somebody can."""

from __future__ import annotations

import sys
from unittest import mock

import sdbr
from sdbr.trace.watch._reads import Watch

import chainer
import numpy as np
import pytest
from chainer import functions as F
from numpy import asarray

from tests.harness.comparison import assert_near
from tests.tolerances import RESULTS

REASON = "a debugger has the trace function of this thread"
#: As if another had it, on every Python.
unwatched = mock.patch("sdbr.call.trace_call.obstacle", lambda: REASON)


class Unwatched(Watch):
    def start(self):
        return REASON


def batch(i: int) -> chainer.Variable:
    return chainer.Variable(np.random.RandomState(i).randn(4, 3).astype("f"))


def scaled(x):
    """What leaves the array by this name is seen by who watches, alone."""
    return F.tanh(x) * float(asarray(x.array)[0, 0])


def check(static, calls):
    for i in calls:
        assert_near(static(batch(i)).array, scaled(batch(i)).array, RESULTS, f"call {i}")


def test_such_calls_are_traced_once_somebody_can_watch():
    static = sdbr.static_graph(scaled, on_dynamic="raise")
    with unwatched, pytest.warns(sdbr.SdbrWarning, match=REASON) as warned:
        check(static, range(3))
    assert len(warned) == 1
    statistics = static.schedule_manager.statistics
    assert (statistics.define_by_run_calls, statistics.traces) == (3, 0)
    check(static, range(3, 7))
    assert (statistics.define_by_run_calls, statistics.traces, statistics.replays) == (3, 1, 3)


def test_who_comes_first_by_a_moment():
    """Another thread takes the last tool between the look whether one is free and the trace."""
    static = sdbr.static_graph(scaled, on_dynamic="raise")
    with mock.patch("sdbr.trace.watch.watching.Watch", Unwatched):
        check(static, range(3))
    statistics = static.schedule_manager.statistics
    assert (statistics.define_by_run_calls, statistics.traces) == (3, 0)
    check(static, range(3, 7))
    assert (statistics.traces, statistics.replays) == (1, 3)


def test_what_is_traced_replays():
    static = sdbr.static_graph(scaled)
    check(static, range(3))
    with unwatched:
        check(static, range(3, 6))
    assert static.schedule_manager.statistics.replays == 5


def test_steps():
    def run(static):
        net = chainer.links.Linear(3, 2, initialW=np.ones((2, 3), "f"))
        optimizer = chainer.optimizers.Adam().setup(net)
        if static:
            optimizer, net = sdbr.static_optimizer(optimizer), sdbr.static_graph(net)
        for i in range(4):
            optimizer.update(lambda x: F.sum(net(x)), batch(i))
        return net.W.array

    with unwatched, pytest.warns(sdbr.SdbrWarning, match=REASON):
        assert_near(run(True), run(False), RESULTS, "weights")


def test_explain_says_so():
    static = sdbr.static_graph(scaled)
    with unwatched, pytest.warns(sdbr.SdbrWarning, match=REASON):
        static(batch(0)), static(batch(1))
    assert f"x 2: it cannot be traced: {REASON}" in str(sdbr.explain(static))


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="there sys.monitoring watches")
def test_a_trace_function_of_another():
    static = sdbr.static_graph(scaled)
    before = sys.gettrace()
    sys.settrace(lambda frame, event, argument: None)
    try:
        with pytest.warns(sdbr.SdbrWarning, match="has the trace function of this thread"):
            check(static, range(2))
    finally:
        sys.settrace(before)
    check(static, range(2, 5))
    statistics = static.schedule_manager.statistics
    assert (statistics.define_by_run_calls, statistics.traces, statistics.replays) == (2, 1, 2)
