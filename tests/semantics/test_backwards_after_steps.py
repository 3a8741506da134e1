"""Row 7: who goes back through a step once it is made finds its graph, or hears that it is gone."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F

from tests.harness.comparison import assert_near
from tests.harness.models import TwoLayers
from tests.tolerances import GRADIENTS

STEPS = 6


class Model(TwoLayers):
    def forward(self, x, t):
        self.h = F.tanh(self.l(x))
        self.y = self.o(self.h)
        self.loss = F.softmax_cross_entropy(self.y, t)
        return self.loss


def gradients(model):
    return [p.grad.copy() for _, p in sorted(model.namedparams())]


def backward(model):
    model.cleargrads()
    model.loss.backward()
    return gradients(model)


def accumulated(model):
    model.loss.backward()
    return gradients(model)


def twice(model):
    model.cleargrads()
    model.loss.backward()
    model.loss.backward()
    return gradients(model)


def of_an_expression(model):
    model.cleargrads()
    (model.loss * 2).backward()
    return gradients(model)


def between(model):
    model.cleargrads()
    F.sum(model.y * model.y).backward()
    return gradients(model)


def retained(model):
    model.cleargrads()
    model.loss.backward(retain_grad=True)
    return [*gradients(model), model.h.grad]


def by_grad(model):
    return [g.array for g in chainer.grad([model.loss], [model.l.W, model.o.b])]


AFTERWARDS = [backward, accumulated, twice, of_an_expression, between, retained, by_grad]


def train(static, after, steps=STEPS):
    model, optimizer = Model(), chainer.optimizers.MomentumSGD(0.1)
    if static:
        model, optimizer = sdbr.static_graph(model), sdbr.static_optimizer(optimizer)
    optimizer.setup(model)
    found = []
    for i in range(steps):
        random = np.random.RandomState(i)
        optimizer.update(model, random.randn(6, 4).astype("f"), random.randint(0, 3, 6))
        found += after(model, i)
        found += [p.array.copy() for _, p in sorted(model.namedparams())]
    return found, model


def assert_same(got, want):
    assert len(got) == len(want)
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        assert_near(a, b, GRADIENTS, f"array {i}")


@pytest.mark.parametrize("after", AFTERWARDS)
def test_after_each_step(after):
    got, model = train(True, lambda model, i: after(model))
    assert_same(got, train(False, lambda model, i: after(model))[0])
    statistics = model.schedule_manager.statistics
    assert (statistics.traces, statistics.replays, statistics.steps) == (1, STEPS - 1, 0)
    assert "goes back through" in str(sdbr.explain(model))


@pytest.mark.parametrize("after", AFTERWARDS)
def test_once_it_was_asked_for_steps_keep_their_graphs(after):
    def later(model, i):
        if i < 2:
            return []
        if i == 2 and hasattr(model, "schedule_manager"):
            with pytest.raises(sdbr.StaleGraphError, match="keep their graphs"):
                after(model)
            model.cleargrads()
        return after(model) if i > 2 else []

    got, model = train(True, later)
    assert_same(got, train(False, later)[0])
    statistics = model.schedule_manager.statistics
    assert (statistics.replays, statistics.steps) == (STEPS - 1, 2)


def test_of_others_the_steps_stay_whole():
    """A backward elsewhere, or of the loss function called by itself, is no matter."""

    def elsewhere(model, i):
        x = chainer.Variable(np.ones((6, 4), "f"))
        F.sum(F.tanh(x)).backward()
        return [x.grad]

    got, model = train(True, elsewhere)
    assert_same(got, train(False, elsewhere)[0])
    assert model.schedule_manager.statistics.steps == STEPS - 1


def test_a_loss_that_is_only_kept():
    kept = []

    def keep(model, i):
        kept.append(model.loss)
        return [kept[0].array]

    got, model = train(True, keep)
    assert_same(got, train(False, keep)[0])
    assert model.schedule_manager.statistics.steps == STEPS - 1
