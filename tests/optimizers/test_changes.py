"""What users change between steps takes effect at once, as in Chainer."""

import io
import os

import sdbr  # noqa: F401

import chainer
import numpy as np
import pytest
from chainer import optimizer_hooks, optimizers
from chainer.optimizer import Hyperparameter

RULES = {
    "sgd": optimizers.SGD,
    "momentum_sgd": optimizers.MomentumSGD,
    "adam": lambda: optimizers.Adam(alpha=0.01),
    "amsbound": lambda: optimizers.AMSBound(alpha=0.01),
}


def params(optimizer):
    return list(optimizer.target.params())


def test_learning_rate(pair):
    both = pair(lambda: optimizers.SGD(lr=0.1))
    for lr in (0.1, 0.03, np.float32(0.5), 2, np.float64(0.25)):
        both.each(lambda o, lr=lr: setattr(o, "lr", lr))
        both.step()
    both.assert_native(5)


@pytest.mark.parametrize(
    "name", ["alpha", "beta1", "beta2", "eps", "eta", "weight_decay_rate", "final_lr", "gamma"]
)
def test_every_hyperparameter_of_adam(pair, name):
    both = pair(RULES["amsbound"])
    both.step(2)
    both.each(lambda o: setattr(o.hyperparam, name, 0.75))
    both.step(2)
    both.assert_native(4)


def test_exponential_shift(pair):
    both = pair(lambda: optimizers.MomentumSGD(lr=0.5))
    shifts = both.each(
        lambda o: chainer.training.extensions.ExponentialShift("lr", 0.5, optimizer=o)
    )
    for _ in range(4):
        for shift in shifts:
            if shift._init is None:
                shift.initialize(None)
            shift(None)
        both.step()
    assert both.static.lr == both.plain.lr == 0.5**5
    both.assert_native(4)


@pytest.mark.parametrize("rule", RULES)
def test_settings_of_one_rule(pair, rule):
    both = pair(RULES[rule])
    name = "alpha" if hasattr(both.plain, "alpha") else "lr"
    both.step()

    def own(optimizer):
        for i, p in enumerate(params(optimizer)[::2]):
            setattr(p.update_rule.hyperparam, name, 0.02 * (i + 1))

    both.each(own)
    both.step(3)
    # From now on only values change: no new program.
    for factor in (0.5, 2.0):
        both.each(
            lambda o, factor=factor: setattr(
                params(o)[0].update_rule.hyperparam, name, 0.02 * factor
            )
        )
        both.step()
    both.assert_native(6, builds=2)


def test_hyperparameter_objects_are_replaced(pair):
    both = pair(RULES["sgd"])
    both.step()

    def other(optimizer):
        shared = Hyperparameter(optimizer.hyperparam)
        shared.lr = 0.7
        params(optimizer)[1].update_rule.hyperparam = shared
        params(optimizer)[2].update_rule.hyperparam = Hyperparameter(shared)
        params(optimizer)[3].update_rule.hyperparam._parent = shared

    both.each(other)
    both.step(2)
    both.each(lambda o: setattr(params(o)[1].update_rule.hyperparam, "lr", 0.1))
    both.step(2)
    # Rules keep the old object, in Chainer as well.
    both.each(lambda o: setattr(o, "hyperparam", Hyperparameter()))
    both.each(lambda o: setattr(o.hyperparam, "lr", 100.0))
    both.step(2)
    both.assert_native(7, builds=2)


def test_hyperparameter_computed_by_a_subclass(pair):
    class Halving(Hyperparameter):
        calls = 0

        @property
        def lr(self):
            self.calls += 1
            return 0.5**self.calls

    both = pair(RULES["sgd"])
    both.each(lambda o: setattr(params(o)[0].update_rule, "hyperparam", Halving(o.hyperparam)))
    both.each(lambda o: o.target.children())
    both.step(1)
    assert both.static.update_plan.reason is None


@pytest.mark.parametrize("rule", RULES)
def test_frozen_for_a_while(pair, rule):
    both = pair(RULES[rule])
    both.step(2)
    both.each(lambda o: o.target.child.disable_update())
    both.step(2)
    both.each(lambda o: o.target.disable_update())
    both.each(lambda o: o.target.many.enable_update())
    both.step(2)
    both.each(lambda o: o.target.enable_update())
    both.step(2)
    assert len({p.update_rule.t for p in params(both.static)}) == 3
    statistics = both.static.update_statistics
    assert (statistics.native_calls, statistics.python_updates) == (8, 0)


def test_halves_frozen_in_turn_cost_two_programs(pair):
    both = pair(RULES["adam"])

    def half(optimizer, k):
        for i, p in enumerate(params(optimizer)):
            p.update_rule.enabled = i % 2 == k

    for i in range(10):
        both.each(lambda o, i=i: half(o, i % 2))
        both.step()
    both.assert_native(10, builds=2)


def test_everything_frozen(pair):
    both = pair(RULES["adam"], prepare=lambda o: o.target.disable_update())
    both.step(2)
    assert both.static.t == 2
    both.each(lambda o: o.target.enable_update())
    both.step(2)
    assert both.static.update_statistics.native_calls == 2


def test_hooks_reach_frozen_parameters(pair):
    both = pair(RULES["sgd"])
    both.each(lambda o: o.add_hook(optimizer_hooks.WeightDecay(0.1)))
    both.each(lambda o: o.add_hook(optimizer_hooks.GradientClipping(1.0)))
    both.each(lambda o: o.target.child.disable_update())
    both.step(3)
    both.assert_native(3)


def test_rule_with_a_step_count_of_its_own(pair):
    both = pair(RULES["adam"])
    both.step()
    both.each(lambda o: setattr(params(o)[3].update_rule, "t", 20))
    both.step(3)
    both.each(lambda o: [setattr(p.update_rule, "t", 10**6) for p in params(o)])
    both.step(3)
    both.assert_native(7, builds=2)


def test_hooks_come_go_and_change(pair):
    both = pair(RULES["sgd"])
    both.step()
    decay = optimizer_hooks.WeightDecay(0.1)
    both.each(lambda o: o.add_hook(decay))
    both.step()
    decay.rate = 0.4
    both.step()
    both.each(lambda o: o.add_hook(optimizer_hooks.GradientClipping(0.5), name="clip"))
    both.step()
    both.each(lambda o: o.remove_hook("WeightDecay"))
    both.step()
    # The same number of hooks, but another one.
    both.each(lambda o: o.remove_hook("clip"))
    both.each(lambda o: o.add_hook(optimizer_hooks.Lasso(0.5), name="clip"))
    both.step()
    both.each(lambda o: params(o)[0].update_rule.add_hook(decay))
    both.step()
    both.each(lambda o: params(o)[0].update_rule.remove_hook("WeightDecay"))
    both.step()
    both.assert_native(8, builds=6)


def test_order_of_hooks(pair):
    both = pair(RULES["sgd"], scale=3.0)
    both.each(lambda o: o.add_hook(optimizer_hooks.GradientClipping(1.0)))
    both.each(lambda o: o.add_hook(optimizer_hooks.WeightDecay(0.5)))
    both.step(2)
    both.each(lambda o: o._hookable._pre_update_hooks.move_to_end("GradientClipping"))
    both.step(2)
    both.assert_native(4, builds=2)


def test_option_switched_on(pair):
    both = pair(lambda: optimizers.Adam(alpha=0.01, adabound=True))
    both.step()
    both.each(lambda o: setattr(o, "adabound", False))
    both.step()
    both.each(lambda o: setattr(o, "adabound", True))
    both.step()
    both.assert_native(3)


def test_parameter_arrays_are_replaced(pair):
    both = pair(RULES["adam"])
    both.step(2)

    def replace(optimizer):
        p = params(optimizer)
        p[0].array = p[0].array * 2
        p[1].data = p[1].data.copy()
        p[2].copydata(p[2])
        p[3].to_cpu()

    both.each(replace)
    both.step(2)
    both.assert_native(4)


def test_parameter_array_of_another_shape(pair):
    both = pair(RULES["sgd"])
    both.step()
    both.each(lambda o: setattr(params(o)[0], "array", np.ones((2, 9), np.float32)))
    both.step(2)
    both.assert_native(3, builds=2)


def test_parameters_are_added_and_removed(pair):
    both = pair(RULES["sgd"])
    both.step()

    def add(optimizer):
        with optimizer.target.child.init_scope():
            optimizer.target.child.late = chainer.Parameter(np.ones((2, 2), np.float32))
        late = optimizer.target.child.late
        late.update_rule = optimizer.create_update_rule()

    both.each(add)
    both.step()
    both.each(lambda o: delattr(o.target, "p2"))
    both.step()
    both.each(lambda o: o.target.many.add_link(chainer.Link(x=(2,))))
    both.each(lambda o: o.target.many[2].x.array.fill(3))
    both.step()
    both.assert_native(4, builds=4)


class Fewer(chainer.Chain):
    """Chooses its parameters by code of its own."""

    def __init__(self, child):
        super().__init__(child=child)
        self.chosen = [3]

    def params(self, include_uninit=True):
        yield from list(super().params(include_uninit))[: self.chosen[0]]

    def namedparams(self, include_uninit=True):
        yield from list(super().namedparams(include_uninit))[: self.chosen[0]]


def test_target_that_chooses_its_parameters(pair):
    both = pair(RULES["sgd"])
    both.each(lambda o: o.setup(Fewer(o.target)))
    both.step(2)
    both.each(lambda o: o.target.chosen.__setitem__(0, 2))
    both.step(2)
    both.assert_native(4, builds=2)


def test_setup_on_another_target(pair):
    both = pair(RULES["adam"])
    both.step(2)
    other = pair(RULES["adam"], seed=5)
    both.plain.setup(other.plain.target)
    both.static.setup(other.static.target)
    both.step(2)
    both.assert_native(4, builds=2)


@pytest.mark.parametrize("which", [0, 4, -1])
def test_step_count_of_one_rule(pair, which):
    both = pair(RULES["adam"])
    both.step(3)

    def count(optimizer, t):
        params(optimizer)[which].update_rule.t = t

    both.each(lambda o: count(o, 10))
    both.each(lambda o: count(o, 3))  # and back: nothing has changed
    both.step()
    both.each(lambda o: count(o, 40))
    both.step(2)
    both.assert_native(6, builds=2)
    assert len({p.update_rule.t for p in params(both.static)}) == 2


def test_state_of_the_last_rule_is_replaced_late(pair):
    both = pair(RULES["adam"])
    both.step(3)
    both.each(lambda o: params(o)[-1].update_rule.state["v"].fill(0))
    both.step()
    for value in (0.5, 2.0):

        def replace(optimizer, value=value):
            p = params(optimizer)[-1]
            p.update_rule.state["v"] = np.full_like(p.array, value)

        both.each(replace)
        both.step()
    assert both.static.update_statistics.python_updates == 0


def test_state_is_replaced(pair):
    both = pair(RULES["adam"])
    both.step(2)

    def replace(optimizer):
        p = params(optimizer)
        p[0].update_rule.state["m"] = np.ones_like(p[0].array)
        p[1].update_rule._state = None
        p[2].update_rule._state = {k: v * 2 for k, v in p[2].update_rule.state.items()}

    both.each(replace)
    both.step(2)
    both.assert_native(4, builds=2)


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_npz(pair, rule, fresh, tmp_path):
    both = pair(RULES[rule])
    both.step(3)
    for optimizer, name in ((both.plain, "a"), (both.static, "b")):
        chainer.serializers.save_npz(os.fspath(tmp_path / name), optimizer)
    if fresh:
        resumed = pair(RULES[rule])
        for a, b in zip(both.each(params), resumed.each(params), strict=True):
            for p, q in zip(a, b, strict=True):
                q.array = p.array.copy()
        both = resumed
    else:
        both.step(2)
    # Files are exchangeable.
    chainer.serializers.load_npz(os.fspath(tmp_path / "b"), both.plain)
    chainer.serializers.load_npz(os.fspath(tmp_path / "a"), both.static)
    assert both.static.t == 3
    both.step(3)
    assert both.static.update_statistics.python_updates == 0


def test_npz_of_a_partly_frozen_target(pair):
    both = pair(RULES["adam"], prepare=lambda o: o.target.child.disable_update())
    both.step(2)
    files = both.each(lambda o: _saved(o))
    fresh = pair(RULES["adam"], prepare=lambda o: o.target.child.disable_update())
    chainer.serializers.load_npz(files[0], fresh.plain)
    chainer.serializers.load_npz(files[1], fresh.static)
    fresh.step(2)
    fresh.each(lambda o: o.target.enable_update())
    fresh.step(2)


def _saved(optimizer):
    file = io.BytesIO()
    chainer.serializers.save_npz(file, optimizer)
    file.seek(0)
    return file


def test_loss_scale(pair):
    both = pair(RULES["adam"])
    both.each(lambda o: o.add_hook(optimizer_hooks.WeightDecay(0.1)))
    both.each(lambda o: params(o)[0].update_rule.add_hook(optimizer_hooks.WeightDecay(0.1)))
    both.each(lambda o: params(o)[0].update_rule.add_hook(optimizer_hooks.Lasso(0.1)))
    for scale in (8.0, 8.0, 16.0, None, 4.0):
        both.each(lambda o, s=scale: [setattr(p, "_loss_scale", s) for p in params(o)])
        both.step()
    both.assert_native(5, builds=2)


def test_backend_is_switched(pair, backend):
    both = pair(RULES["adam"])
    both.step()
    for other, calls in (("numpy", 2), ("off", 2), ("cython", 3)):
        with chainer.using_config("sdbr_backend", other):
            both.step()
        assert both.static.update_statistics.native_calls == calls
    with chainer.using_config("use_static_graph", False):
        both.step()
    assert both.static.update_statistics.native_calls == 3


@pytest.mark.parametrize("which", [slice(0, 1), slice(3, 4), slice(None)])
@pytest.mark.parametrize(
    ("make", "attribute", "value"),
    [
        (lambda: optimizers.MSVAG(beta=0.8), "beta_power", 0.3),
        (lambda: optimizers.AdaBound(gamma=0.1), "initial_alpha", 0.01),
    ],
    ids=["beta_power", "initial_alpha"],
)
def test_what_a_rule_itself_holds(pair, make, attribute, value, which):
    """Snapshots leave it out, so who resumes a training sets it."""
    both = pair(make, np.float64)
    both.step(3)
    for optimizer in (both.plain, both.static):
        for p in list(optimizer.target.params())[which]:
            setattr(p.update_rule, attribute, value)
    both.step(3)
    for a, b in zip(both.plain.target.params(), both.static.target.params(), strict=True):
        assert getattr(a.update_rule, attribute) == getattr(b.update_rule, attribute)
    statistics = both.static.update_statistics
    assert (statistics.native_calls, statistics.python_updates) == (6, 0)
