"""Forward, backward and update in one native call leave what Chainer would have left."""

import copy
import pickle

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest
from chainer import optimizer_hooks

from tests.harness.update_rules import RULES, add_all_hooks
from tests.tolerances import GRADIENTS, RESULTS, ROUNDINGS


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 6)
            self.l2 = L.Linear(6, 3)
            self.idle = L.Linear(2, 2)

    def forward(self, x, t):
        self.loss = F.softmax_cross_entropy(self.l2(F.tanh(self.l1(x))), t)
        return self.loss


class Runs:
    """The same training twice: by Chainer and static."""

    def __init__(self, make, prepare=lambda optimizer: None):
        self.rng = np.random.RandomState(0)
        np.random.seed(0)
        self.plain = make().setup(Net())
        np.random.seed(0)
        self.static = sdbr.static_optimizer(make()).setup(sdbr.static_graph(Net()))
        for optimizer in self.both:
            prepare(optimizer)

    @property
    def both(self):
        return self.plain, self.static

    @property
    def steps(self):
        return self.static.target.schedule_manager.statistics.steps

    def step(self, n=1):
        for _ in range(n):
            x = self.rng.randn(5, 4).astype(np.float32)
            t = self.rng.randint(0, 3, 5).astype(np.int32)
            for optimizer in self.both:
                assert optimizer.update(optimizer.target, x, t) is None
            self.compare()

    def compare(self):
        plain, static = self.both
        assert (plain.t, plain.epoch) == (static.t, static.epoch)
        close(plain.target.loss.array, static.target.loss.array, RESULTS)
        pairs = zip(plain.target.namedparams(), static.target.namedparams(), strict=True)
        for (name, p), (_, q) in pairs:
            close(p.array, q.array, RESULTS, name)
            close(p.grad, q.grad, GRADIENTS, f"{name}.grad")
            assert p.update_rule.t == q.update_rule.t, name
            for key in p.update_rule.state or {}:
                close(
                    p.update_rule.state[key], q.update_rule.state[key], GRADIENTS, f"{name}.{key}"
                )


def close(a, b, tolerance, name=""):
    atol = tolerance * max(float(np.abs(a).max()), ROUNDINGS)
    np.testing.assert_allclose(b, a, rtol=0, atol=atol, err_msg=name)


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
    assert runs.steps == 0
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
