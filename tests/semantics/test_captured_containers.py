"""Row 8: a call may assign lists, tuples and dicts of its results to attributes."""

from __future__ import annotations

import collections
import copy

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest

from tests.harness.comparison import assert_near
from tests.harness.twins import X
from tests.tolerances import RESULTS, SUMS


class Attention(chainer.Chain):
    """Keeps what it looked at in each step."""

    def __init__(self, keep):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(4, 3, initialW=np.random.RandomState(0).randn(3, 4) / 2)
        self.keep = keep
        self.steps = None

    def forward(self, x):
        hs = [F.softmax(self.l(x * (i + 1))) for i in range(3)]
        self.keep(self, x, hs)
        return sum(F.sum(h**2) for h in hs)


def a_list(self, x, hs):
    self.steps = hs


def appended(self, x, hs):
    self.steps = []
    for h in hs:
        self.steps.append(h)


def a_dict(self, x, hs):
    self.steps = {"first": hs[0], "rest": (hs[1], [hs[2], None, hs[2].array.max(axis=1)])}


def ordered(self, x, hs):
    self.steps = collections.OrderedDict([("b", hs[0]), ("a", hs[1].array)])


def with_a_parameter(self, x, hs):
    self.steps = [hs[0], self.l.W]


def with_an_argument(self, x, hs):
    self.steps = [hs[0], chainer.as_variable(x)]


def leaves(thing):
    if isinstance(thing, dict):
        return [x for v in thing.values() for x in leaves(v)]
    if isinstance(thing, (list, tuple)):
        return [x for v in thing for x in leaves(v)]
    return [thing]


def compare(got, want):
    assert type(got) is type(want)
    for a, b in zip(leaves(got), leaves(want), strict=True):
        assert type(a) is type(b)
        if a is not None:
            assert_near(getattr(a, "array", a), getattr(b, "array", b), RESULTS, "kept")


KEEPING = [a_list, appended, a_dict, ordered, with_a_parameter, with_an_argument]


@pytest.mark.parametrize("keep", KEEPING)
@pytest.mark.parametrize("backprop", [True, False])
def test_results_in_containers(keep, backprop):
    plain = Attention(keep)
    static = sdbr.static_graph(copy.deepcopy(plain), on_dynamic="raise")
    kept = []
    with chainer.using_config("enable_backprop", backprop):
        for i in range(5):
            losses = [model(X * (i + 1)) for model in (static, plain)]
            assert_near(losses[0].array, losses[1].array, RESULTS, "loss")
            compare(static.steps, plain.steps)
            kept.append((static.steps, [getattr(x, "array", x) for x in leaves(static.steps)]))
            kept[-1] += ([None if x is None else x.copy() for x in kept[-1][1]],)
            if backprop:
                grads = []
                for model, loss in zip((static, plain), losses, strict=True):
                    model.cleargrads()
                    (loss + F.sum(leaves(model.steps)[0] * X[:, :3])).backward()
                    grads.append(model.l.W.grad.copy())
                assert_near(*grads, 1e-4, "gradient")
    assert static.schedule_manager.statistics.replays == 4
    if keep is with_a_parameter:
        assert static.steps[1] is static.l.W
        return
    for steps, arrays, copies in kept:  # nothing changes under who holds it
        for x, array, old in zip(leaves(steps), arrays, copies, strict=True):
            assert getattr(x, "array", x) is array
            np.testing.assert_array_equal(array, old)


def test_whole_steps():
    models = [Attention(a_list), None]
    models[1] = copy.deepcopy(models[0])
    static = sdbr.static_graph(models[0], on_dynamic="raise")
    fast = sdbr.static_optimizer(chainer.optimizers.SGD(0.01)).setup(static)
    slow = chainer.optimizers.SGD(0.01).setup(models[1])
    for i in range(5):
        fast.update(static, X * (i + 1))
        slow.update(models[1], X * (i + 1))
        assert_near(static.l.W.array, models[1].l.W.array, SUMS, "W")
        compare(static.steps, models[1].steps)
    assert static.schedule_manager.statistics.steps >= 3


def test_a_number_among_them():
    def numbered(self, x, hs):
        self.steps = [hs[0], 3.0]

    static = sdbr.static_graph(Attention(numbered), on_dynamic="raise")
    for _ in range(4):
        static(X)
        assert type(static.steps[0]) is chainer.Variable and static.steps[1:] == [3.0]
    assert static.schedule_manager.statistics.replays >= 2
