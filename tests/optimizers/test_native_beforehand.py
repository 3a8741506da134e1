"""Whether an update is native is known before its plan is made, or it is not said."""

from __future__ import annotations

import sdbr
from sdbr.optimizers.problems import is_native

import chainer
import numpy as np
import pytest

from tests.harness.update_rules import HOOKS, RULES


def set_up(optimizer) -> chainer.optimizer.GradientMethod:
    model = chainer.Chain(a=chainer.links.Linear(3, 2), b=chainer.links.Linear(2, 2))
    return sdbr.static_optimizer(optimizer).setup(model)


def has_no_gap(optimizer) -> bool:
    """Whether the plan has nothing that stays Chainer's own."""
    plan = optimizer.update_plan
    return plan.native and plan.reason is None


@pytest.mark.parametrize("name", RULES)
def test_said_of_every_rule(name):
    optimizer = set_up(RULES[name]())
    assert is_native(optimizer)
    rules = [param.update_rule for param in optimizer.target.params()]
    assert all(rule.state is None for rule in rules)
    assert has_no_gap(optimizer)


class Own(chainer.optimizers.SGD):
    """An optimizer with an update of its own."""

    def update(self, *args, **kwargs):
        return super().update(*args, **kwargs)


def disabled(optimizer):
    optimizer.target.a.W.update_rule.enabled = False


def replaced(optimizer):
    optimizer.target.a.b.update_rule.update_core = lambda param: None


def read_only(optimizer):
    optimizer.target.b.W.array.flags.writeable = False


def half(optimizer):
    optimizer.target.b.b.array = optimizer.target.b.b.array.astype(np.float16)


def scaled(optimizer):
    optimizer.target.a.W._loss_scale = 8.0


def function_hook(optimizer):
    optimizer.add_hook(lambda opt: None, "mine")


def hook_of_a_rule(optimizer):
    optimizer.target.a.W.update_rule.add_hook(HOOKS["decay"](), "decay")


@pytest.mark.parametrize(
    "change",
    [disabled, replaced, read_only, half, scaled, function_hook, hook_of_a_rule],
    ids=lambda change: change.__name__,
)
def test_not_said_where_a_closer_look_is_needed(change):
    optimizer = set_up(chainer.optimizers.RMSprop(lr=0.1))
    assert is_native(optimizer)
    change(optimizer)
    assert not is_native(optimizer)


def test_not_said_of_an_update_of_its_own():
    assert not is_native(set_up(Own(lr=0.1)))


def test_not_said_of_optimizers_without_parameters():
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD()).setup(chainer.Chain())
    assert not is_native(optimizer)
