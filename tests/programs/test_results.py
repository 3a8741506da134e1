"""Where results lie: on memory of the user's that their op has written to itself."""

from __future__ import annotations

import sdbr

import chainer
import chainer.functions as F
import numpy as np
import pytest

X = np.random.default_rng(0).standard_normal((3, 4)).astype("f") * 9


@pytest.mark.parametrize(
    "f",
    [F.floor, F.ceil, lambda x: chainer.Variable(F.relu(x).array), lambda x: F.relu(x).array],
    ids=["floor", "ceil", "Variable of an array", "array"],
)
def test_a_result_without_history_is_no_copy(f):
    static = sdbr.static_graph(f)
    for i in range(3):
        y, want = static(chainer.Variable(X + i)), f(chainer.Variable(X + i))
        np.testing.assert_array_equal(getattr(y, "array", y), getattr(want, "array", want))
    [(schedule,)] = static.schedule_manager.schedules.values()
    assert " copy " not in schedule.programs["forward"].disassemble()
    assert static.schedule_manager.statistics.replays == 2


@pytest.mark.parametrize("kind", [chainer.Variable, lambda array: array], ids=["Variable", "array"])
def test_what_the_user_writes_there_is_seen_by_the_backward(kind):
    """`exp` keeps its result, and an array of that result is the same memory."""

    def f(x):
        y = F.exp(x)
        return F.sum(y), kind(y.array)

    static = sdbr.static_graph(f)
    for i in range(4):
        found = []
        for call in (f, static):
            x = chainer.Variable(X / 9 + i)
            total, beside = call(x)
            getattr(beside, "array", beside)[...] = i
            total.backward()
            found.append(x.grad)
        np.testing.assert_array_equal(*found)
        assert (found[0] == i).all()
    assert static.schedule_manager.statistics.replays == 3
