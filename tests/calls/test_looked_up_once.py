"""A call or a step is taken apart, keyed and looked for once at most."""

from __future__ import annotations

import sdbr
from sdbr.call import find
from sdbr.call.manager import ScheduleManager

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

X = np.random.RandomState(0).randn(5, 4).astype("f")
T = np.array([0, 1, 2, 0, 1], "i")
CALLS = 6


class MLP(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 8)
            self.l2 = L.Linear(8, 3)

    def forward(self, x):
        return self.l2(F.relu(self.l1(x)))


@pytest.fixture
def counted(monkeypatch):
    """How often each of the three has run so far, by name."""
    counts = {"flatten_arguments": 0, "call_key": 0, "find": 0}

    def count(holder, name):
        original = getattr(holder, name)

        def wrapper(*args, **kwargs):
            counts[name] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(holder, name, wrapper)

    count(find, "flatten_arguments")
    count(find, "call_key")
    count(ScheduleManager, "find")
    return counts


def taken(counts, call):
    """What each of some calls has added to the counts; they are the same for all three."""
    found = []
    for i in range(CALLS):
        before = dict(counts)
        call(i)
        (times,) = {counts[name] - before[name] for name in counts}
        found.append(times)
    return found


def calling(backprop):
    model = sdbr.static_graph(MLP())

    def call(i):
        with chainer.using_config("enable_backprop", backprop):
            model(X + i)

    return model, call


def stepping(make=chainer.optimizers.Adam, change=None, lossfun=lambda model: model):
    model = sdbr.static_graph(L.Classifier(MLP()))
    optimizer = sdbr.static_optimizer(make()).setup(model)
    if change is not None:
        change(optimizer)

    def call(i):
        optimizer.update(lossfun(model), X + i, T)

    return model, call


@pytest.mark.parametrize("backprop", [True, False])
def test_calls(counted, backprop):
    model, call = calling(backprop)
    with chainer.using_config("sdbr_audit", "off"):
        assert taken(counted, call) == [1, 1, 0, 0, 0, 0]
    assert model.schedule_manager.statistics.replays == CALLS - 1


@pytest.mark.parametrize("lossfun", [lambda model: model, lambda model: model.forward])
def test_whole_steps(counted, lossfun):
    model, call = stepping(lossfun=lossfun)
    with chainer.using_config("sdbr_audit", "off"):
        assert taken(counted, call) == [1, 1, 0, 0, 0, 0]
    assert model.schedule_manager.statistics.steps == CALLS - 1


def own_clearing(optimizer):
    optimizer.target.cleargrads = optimizer.target.cleargrads


def test_steps_in_parts(counted):
    """Each is looked at once more, because what keeps it from being whole may have gone."""
    model, call = stepping(change=own_clearing)
    with chainer.using_config("sdbr_audit", "off"):
        assert taken(counted, call) == [1] * CALLS
    statistics = model.schedule_manager.statistics
    assert (statistics.steps, statistics.replays) == (0, CALLS - 1)


@pytest.mark.parametrize("make", [lambda: calling(True), lambda: calling(False), stepping])
def test_audited_ones(counted, make):
    model, call = make()
    with chainer.using_config("sdbr_audit", "auto"):
        found = taken(counted, call)
    assert found[:2] == [1, 1] and max(found) == 1
    statistics = model.schedule_manager.statistics
    assert statistics.replays == CALLS - 1
    assert model.schedule_manager.audits.passed > 0
