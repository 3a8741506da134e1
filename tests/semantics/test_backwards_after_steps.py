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
    found = [p.grad for _, p in sorted(model.namedparams())]
    return [grad.copy() for grad in found if grad is not None]


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


def train(static, after, steps=STEPS, model=Model):
    model, optimizer = model(), chainer.optimizers.MomentumSGD(0.1)
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


class WithParts(TwoLayers):
    """Results in a tuple and a dict of the link, too."""

    def forward(self, x, t):
        h = F.tanh(self.l(x))
        y = self.o(h)
        self.loss = F.softmax_cross_entropy(y, t)
        self.parts = (h, {"y": y})
        return self.loss


class Returning(TwoLayers):
    """Its loss is in no attribute."""

    def forward(self, x, t):
        return F.softmax_cross_entropy(self.o(F.tanh(self.l(x))), t)


def test_what_the_next_step_writes_again_is_not_kept():
    for model in (WithParts, Returning):
        got, static = train(True, lambda model, i: [], model=model)
        assert_same(got, train(False, lambda model, i: [], model=model)[0])
        assert static.schedule_manager.statistics.steps == STEPS - 1


def loss_of(model):
    return model.loss


def a_result(model):
    return F.sum(model.y * model.y)


def an_expression(model):
    return model.loss * 2


def an_expression_between(model):
    return F.sum(model.h * model.h)


@pytest.mark.parametrize("what", [loss_of, a_result, an_expression, an_expression_between])
@pytest.mark.parametrize("which", [0, 1, 3, STEPS - 1])
def test_kept_over_several_steps(what, which):
    """Activations are those of then, parameters as they are by now."""

    def program():
        kept = []

        def keep(model, i):
            kept.append(what(model))
            if i < STEPS - 1:
                return []
            model.cleargrads()
            kept[which].backward()
            return gradients(model)

        return keep

    got, model = train(True, program())
    assert_same(got, train(False, program())[0])
    statistics = model.schedule_manager.statistics
    assert (statistics.traces, statistics.replays, statistics.steps) == (1, STEPS - 1, 0)
    assert "holds the graphs" in str(sdbr.explain(model))


def test_a_loss_that_is_only_kept():
    """Nobody can tell that it will not be gone back through."""
    kept = []

    def keep(model, i):
        kept.append(model.loss)
        return [kept[0].array]

    got, model = train(True, keep)
    kept.clear()
    assert_same(got, train(False, keep)[0])
    assert model.schedule_manager.statistics.steps == 0


def test_one_loss_that_is_kept():
    """The steps after it are whole as soon as it shows that it is the only one."""

    def program():
        kept = []

        def keep(model, i):
            kept[1:] = []
            kept.append(model.loss)
            if i < 2 * STEPS - 1:
                return []
            model.cleargrads()
            kept[0].backward()
            return gradients(model)

        return keep

    got, model = train(True, program(), 2 * STEPS)
    assert_same(got, train(False, program(), 2 * STEPS)[0])
    assert model.schedule_manager.statistics.steps == 2 * STEPS - 3


def test_a_loss_that_the_next_one_takes_the_place_of():
    """As a local variable of a loop: one step in parts, then it is known."""
    held = [None]

    def hold(model, i):
        held[0] = model.loss
        return [held[0].array]

    got, model = train(True, hold)
    assert_same(got, train(False, hold)[0])
    assert model.schedule_manager.statistics.steps == STEPS - 2
