"""Whole steps of truncated backprop: state that goes from step to step without its history."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_near
from tests.tolerances import ELEMENTS, RESULTS

RNG = np.random.RandomState(0)
XS = [RNG.randn(3, 5, 4).astype("f") for _ in range(12)]
T = np.array([0, 1, 2, 0, 1], "i")


class Tagger(chainer.Chain):
    """Three time steps; `keep` says how the state goes on."""

    def __init__(self, keep):
        super().__init__()
        self.keep = keep
        self.state = None
        with self.init_scope():
            self.lstm, self.out = L.LSTM(4, 6), L.Linear(6, 3)

    def forward(self, xs):
        if self.keep == "arrays" and self.state is not None:
            self.lstm.set_state(*map(chainer.as_variable, self.state))
        elif self.keep != "arrays" and self.lstm.h is not None:
            made = chainer.Variable if self.keep == "Variable" else chainer.as_variable
            self.lstm.set_state(made(self.lstm.c.array), made(self.lstm.h.array))
        loss = sum(F.softmax_cross_entropy(self.out(self.lstm(x)), T) for x in xs)
        if self.keep == "arrays":
            self.state = self.lstm.c.array, self.lstm.h.array
        self.loss = loss
        return loss


def trained(keep, static, after=lambda model: None):
    np.random.seed(0)
    model, optimizer = Tagger(keep), chainer.optimizers.Adam(0.01)
    if static:
        model, optimizer = (
            sdbr.static_graph(model, on_dynamic="raise"),
            sdbr.static_optimizer(optimizer),
        )
    optimizer.setup(model)
    seen = []
    for xs in XS:
        optimizer.update(model, xs)
        seen.append([model.loss.array.copy(), model.lstm.h.array.copy(), after(model)])
    return model, seen


def assert_alike(one, other):
    for (loss, h, _), (plain_loss, plain_h, _) in zip(one[1], other[1], strict=True):
        assert_near(loss, plain_loss, RESULTS, "loss")
        assert_near(h, plain_h, ELEMENTS, "state")
    pairs = zip(one[0].params(), other[0].params(), strict=True)
    for p, q in pairs:
        assert_near(p.array, q.array, ELEMENTS, p.name)


@pytest.mark.parametrize("keep", ["arrays", "Variable", "as_variable"])
def test_steps_are_whole(keep):
    static = trained(keep, True)
    assert_alike(static, trained(keep, False))
    statistics = static[0].schedule_manager.statistics
    assert statistics.steps >= len(XS) - 4 and statistics.python_ops == 0
    schedule = static[0].schedule_manager.static_schedule
    assert len(schedule.instances) <= 2  # no graph of an earlier step holds one


def test_a_program_that_goes_back_through_the_state_outside():
    """Then steps keep their graphs."""

    def after(model):
        F.sum(model.lstm.h).backward()

    static = trained("Variable", True, after)
    assert_alike(static, trained("Variable", False, after))
    assert static[0].schedule_manager.statistics.steps == 0


def test_a_program_that_begins_to_do_so_is_told():
    model, _ = trained("Variable", True)
    with pytest.raises(sdbr.StaleGraphError):
        F.sum(model.lstm.h).backward()
