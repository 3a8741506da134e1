"""Row 10: Variables that are copied or pickled in the call show the arrays of each call."""

from __future__ import annotations

import copy
import pickle

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_near
from tests.tolerances import RESULTS


class Net(chainer.Chain):
    def __init__(self, take):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(3, 3, initialW=np.eye(3, dtype="f") / 2)
        self.take = take
        self.outside = chainer.Variable(np.ones(3, "f"))
        self.last = None

    def forward(self, x):
        return self.take(self, x)


def kept(net, x):
    net.last = copy.deepcopy(x * 2)
    return x * 3


def with_another_array(h):
    """Chainer lets both show it."""
    c = copy.copy(h)
    c.array = h.array * 3
    return h + c


def pickled(x):
    return pickle.loads(pickle.dumps(x))


#: What is done with a copy, and whether that replays.
TAKE = {
    "number": (lambda net, x: x * float(copy.deepcopy(x * 2).array[0, 0]), True),
    "number of an argument": (lambda net, x: x * float(copy.copy(x).array[0, 0]), True),
    "in a list": (lambda net, x: x * float(copy.deepcopy([x * 2])[0].array[0, 0]), True),
    "branch": (lambda net, x: x * 2 if copy.deepcopy(x * 2).array[0, 0] > 0 else x, True),
    "array": (lambda net, x: x * copy.deepcopy(x * 2).array, True),
    "Variable": (lambda net, x: net.l(copy.deepcopy(x * 2)), True),
    "result": (lambda net, x: copy.deepcopy(x * 2), True),
    "kept": (kept, True),
    "outside": (lambda net, x: x * float(copy.copy(net.outside).array[0]), True),
    "argument": (lambda net, x: x * float(copy.deepcopy(x).array[0, 0]), False),
    "other array": (lambda net, x: with_another_array(x * 2), False),
    "pickle": (lambda net, x: x * float(pickled(x * 2).array[0, 0]), False),
    "parameter": (lambda net, x: x * float(copy.deepcopy(net.l.W).array[0, 0]), False),
    "link": (lambda net, x: copy.deepcopy(net.l)(x), False),
}


def steps(net):
    """Results, gradients and what is kept, of calls with other arrays and parameters each."""
    found = []
    for i in range(6):
        x = chainer.Variable(np.random.RandomState(i).randn(2, 3).astype("f"))
        net.outside.array = np.full(3, i + 1, "f")
        net.l.W.array[:] = np.eye(3, dtype="f") * (i + 1)
        net.cleargrads()
        y = net(x)
        F.sum(y).backward()
        found.append((y.array, x.grad, net.l.W.grad, getattr(net.last, "array", None)))
    return found


@pytest.mark.parametrize("name", TAKE)
def test_what_a_copy_shows(name):
    take, replays = TAKE[name]
    net = sdbr.static_graph(Net(take), on_dynamic="fallback")
    for i, (got, want) in enumerate(zip(steps(net), steps(Net(take)), strict=True)):
        for one, other in zip(got, want, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                assert_near(one, other, RESULTS, f"call {i}")
    statistics = net.schedule_manager.statistics
    assert statistics.replays >= 3 if replays else statistics.replays == 0


@pytest.mark.parametrize("of", ["an argument", "a Variable outside"])
def test_a_copy_with_a_gradient(of):
    """Which comes and goes between the calls."""
    outside = chainer.Variable(np.ones(3, "f"))
    static = sdbr.static_graph(
        lambda x: copy.deepcopy(x if of == "an argument" else outside), on_dynamic="fallback"
    )
    for i in range(4):
        x = chainer.Variable(np.ones(3, "f"))
        for each in (x, outside):
            each.grad = np.full(3, i, "f") if i % 2 else None
        got = static(x).grad
        assert (got is None) == (i % 2 == 0)
        if got is not None:
            assert_near(got, x.grad, RESULTS, f"call {i}")
    assert "gradient" in str(sdbr.explain(static))
