"""Row 8: the code of an update that is replaced between steps is what the next step runs."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer.optimizer import GradientMethod, Hyperparameter, Optimizer, UpdateRule
from chainer.optimizer_hooks import WeightDecay
from chainer.optimizers.momentum_sgd import MomentumSGDRule

from tests.harness.comparison import assert_near
from tests.harness.models import TwoLayers
from tests.tolerances import GRADIENTS

STEPS, CHANGE = 9, 5


class Model(TwoLayers):
    def forward(self, x, t):
        return F.softmax_cross_entropy(self.o(F.tanh(self.l(x))), t)


def descend(self, param):
    param.array -= 0.5 * param.grad


def halve(self, *args):
    for param in self.target.params():
        param.grad *= 0.5


class OtherRule(MomentumSGDRule):
    update_core_cpu = descend


def other_code(self, param):
    param.array -= 0.25 * param.grad


def of_instance(name, function):
    def change(patch, model, optimizer):
        rule = model.l.W.update_rule
        setattr(rule, name, lambda param: function(rule, param))

    return change


def of_class(cls, name, function):
    return lambda patch, model, optimizer: patch.setattr(cls, name, function)


def on_optimizer(patch, model, optimizer):
    optimizer.call_hooks = lambda *args: halve(optimizer)


def own_clearing(patch, model, optimizer):
    model.cleargrads = lambda: [setattr(p, "grad", np.ones_like(p.array)) for p in model.params()]


def another_hyperparameter(patch, model, optimizer):
    new = model.l.W.update_rule.hyperparam = Hyperparameter()
    new.lr, new.momentum = 0.7, 0.2


def another_hook(patch, model, optimizer):
    optimizer.remove_hook("decay")
    optimizer.add_hook(WeightDecay(0.5), "decay")


# What changes, and whether the steps after that are still whole ones.
CHANGES = {
    "update_core_cpu of a rule": (of_instance("update_core_cpu", descend), True),
    "update_core of a rule": (of_instance("update_core", descend), True),
    "update of a rule": (of_instance("update", descend), True),
    "class of a rule": (
        lambda patch, model, o: setattr(model.l.W.update_rule, "__class__", OtherRule), True,
    ),
    "hyperparameters": (another_hyperparameter, True),
    "a hook": (another_hook, True),
    "update_core_cpu": (of_class(MomentumSGDRule, "update_core_cpu", descend), True),
    "update_core": (of_class(MomentumSGDRule, "update_core", descend), True),
    "update": (of_class(UpdateRule, "update", descend), True),
    "code": (
        lambda patch, m, o: patch.setattr(
            MomentumSGDRule.update_core_cpu, "__code__", other_code.__code__
        ), True,
    ),
    "hook": (of_class(WeightDecay, "__call__", lambda self, rule, param: None), True),
    "call_hooks": (of_class(Optimizer, "call_hooks", halve), True),
    "reallocate_cleared_grads": (
        of_class(GradientMethod, "reallocate_cleared_grads", halve), True,
    ),
    "call_hooks of an optimizer": (on_optimizer, True),
    "cleargrads of a model": (own_clearing, False),
    "cleargrads": (
        of_class(chainer.Link, "cleargrads", lambda self: [p.cleargrad() for p in self.params()]),
        False,
    ),
}  # fmt: skip


def train(static, name):
    model, optimizer = Model(), chainer.optimizers.MomentumSGD(0.1)
    if static:
        model, optimizer = sdbr.static_graph(model), sdbr.static_optimizer(optimizer)
    optimizer.setup(model)
    optimizer.add_hook(WeightDecay(0.1), "decay")
    found, steps = [], []
    with pytest.MonkeyPatch.context() as patch:
        for i in range(STEPS):
            if i == CHANGE:
                CHANGES[name][0](patch, model, optimizer)
            random = np.random.RandomState(i)
            optimizer.update(model, random.randn(6, 4).astype("f"), random.randint(0, 3, 6))
            found.append([p.array.copy() for _, p in sorted(model.namedparams())])
            steps.append(model.schedule_manager.statistics.steps if static else 0)
    return found, steps


@pytest.mark.parametrize("name", CHANGES)
def test_the_next_step_runs_what_is_there(name):
    want, _ = train(False, name)
    got, steps = train(True, name)
    for i, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        for a, b in zip(ours, theirs, strict=True):
            assert_near(a, b, GRADIENTS, f"step {i}")
    assert steps[CHANGE - 1] == CHANGE - 1  # whole ones, but for the first
    assert steps[-1] == (STEPS - 1 if CHANGES[name][1] else CHANGE - 1)


def test_what_is_put_back_is_native_again():
    model = sdbr.static_graph(Model())
    optimizer = sdbr.static_optimizer(chainer.optimizers.MomentumSGD(0.1)).setup(model)
    x, t = np.ones((6, 4), "f"), np.zeros(6, "i")
    statistics = model.schedule_manager.statistics
    for _ in range(3):
        optimizer.update(model, x, t)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MomentumSGDRule, "update_core", descend)
        optimizer.update(model, x, t)
        assert optimizer.update_statistics.python_updates == 1
    optimizer.update(model, x, t)
    assert optimizer.update_statistics.python_updates == 1
    assert statistics.steps == 4
