"""Forward, backward and update in one native call leave what Chainer would have left."""

import copy
import pickle

import numpy as np
import pytest
from chainer import optimizer_hooks

from tests.harness.trainings import Runs
from tests.harness.update_rules import RULES, add_all_hooks


@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_fifty_steps(name, hooked):
    runs = Runs(RULES[name], add_all_hooks if hooked else lambda optimizer: None)
    runs.step(50)
    # The first calls trace.
    assert runs.steps >= 45
    assert runs.static.update_statistics.python_updates == 0


def test_changes_between_steps():
    runs = Runs(RULES["adam"])
    runs.step(4)
    before = runs.steps
    for optimizer in runs.both:
        optimizer.alpha = 0.05
        optimizer.target.l2.W.update_rule.hyperparam.beta1 = 0.5
    runs.step(3)
    for optimizer in runs.both:
        optimizer.target.l1.disable_update()
    runs.step(3)
    for optimizer in runs.both:
        optimizer.target.enable_update()
        optimizer.add_hook(optimizer_hooks.GradientClipping(0.1))
    runs.step(3)
    assert runs.steps >= before + 6


@pytest.mark.parametrize("how", ["copy", "deepcopy", "pickle"])
def test_copies_after_whole_steps(how):
    runs = Runs(RULES["adam"])
    runs.step(4)
    make = {
        "copy": copy.copy,
        "deepcopy": copy.deepcopy,
        "pickle": lambda o: pickle.loads(pickle.dumps(o)),
    }[how]
    runs.plain, runs.static = make(runs.plain), make(runs.static)
    runs.step(4)


def test_python_hook():
    def halve(optimizer):
        for p in optimizer.target.params():
            p.grad *= 0.5

    runs = Runs(RULES["adam"], lambda o: o.add_hook(halve))
    runs.step(5)
    assert runs.steps == 4
    assert runs.static.update_statistics.mixed_updates == 5


def test_update_alone_between_whole_steps():
    runs = Runs(RULES["adam"])
    runs.step(4)
    for _ in range(2):
        for optimizer in runs.both:
            optimizer.update()
        runs.compare()
        runs.step(2)
    assert runs.static.update_statistics.native_calls >= 2


def test_parameters_that_carry_the_loss_scale_of_another_optimizer():
    runs = Runs(RULES["adam"])
    runs.step(4)
    for optimizer in runs.both:
        for p in optimizer.target.params():
            p._loss_scale = 16.0
    runs.step(4)


def test_loss_scaling():
    runs = Runs(RULES["sgd"])
    runs.step(3)
    for optimizer in runs.both:
        optimizer.target.idle.disable_update()
        optimizer.set_loss_scale(8.0)
    runs.step(3)


def test_a_program_for_the_update_alone_is_not_made_where_steps_are_whole():
    runs = Runs(RULES["adam"])
    runs.step(1)  # traced
    statistics = runs.static.update_statistics
    assert (statistics.traced_updates, statistics.native_calls, statistics.builds) == (1, 0, 0)
    runs.step(3)
    assert runs.steps == 3
    assert (statistics.traced_updates, statistics.native_calls, statistics.builds) == (1, 0, 0)
    for optimizer in runs.both:
        optimizer.update()
    runs.compare()
    assert (statistics.traced_updates, statistics.native_calls, statistics.builds) == (1, 1, 1)


def test_a_read_only_parameter_in_the_first_step_raises_before_anything_is_updated():
    runs = Runs(RULES["adam"])
    optimizer = runs.static
    last = list(optimizer.target.params())[-1]
    last.array.flags.writeable = False
    before = [p.array.copy() for p in optimizer.target.params()]
    x, t = np.zeros((5, 4), np.float32), np.zeros(5, np.int32)
    with pytest.raises(ValueError, match="read-only"):
        optimizer.update(optimizer.target, x, t)
    for old, param in zip(before, optimizer.target.params(), strict=True):
        np.testing.assert_array_equal(param.array, old)
