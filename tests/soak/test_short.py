"""The soak of `soak.py`, short and counted in iterations: objects and blocks, not bytes."""

from __future__ import annotations

import sdbr  # noqa: F401  (first: it makes Chainer importable)

import pytest

from .soak import SIZES, Mixed, Threads, Use, create_and_drop, growth

pytestmark = pytest.mark.filterwarnings("ignore:.*five of the last eight")  # on purpose

#: After so many iterations every kind of call came with every batch size.
ROUND = 5 * len(SIZES)


@pytest.mark.alone
def test_mixed_shapes_leave_nothing_behind():
    mixed = Mixed()
    for k in range(10 * ROUND):
        mixed.iterate(k)
    before = Use.now()
    for k in range(10 * ROUND, 20 * ROUND):
        mixed.iterate(k)
    assert mixed.wrong == []
    assert growth(before, Use.now(), 10 * ROUND, memory=False) == []
    statistics = mixed.model.schedule_manager.statistics
    assert statistics.replays > statistics.traces
    assert statistics.steps > 20


@pytest.mark.alone
def test_dropped_chains_are_gone():
    for k in range(3):
        assert create_and_drop(k) == []
    before = Use.now()
    for k in range(6):
        assert create_and_drop(k) == []
    assert growth(before, Use.now(), 6, memory=False) == []


def test_eight_threads_get_eight_right_answers():
    threads = Threads()
    for _ in range(4):
        assert threads.round(10) == 8
    # One set of activations per call that was under way at once, and no more.
    for candidates in threads.model.schedule_manager.schedules.values():
        assert [s for s in candidates if len(s.instances) > 8] == []
