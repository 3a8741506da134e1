"""Rules, hooks and parameters without native code run Chainer's own, in Chainer's order."""

import sdbr  # noqa: F401
from sdbr.optimizers.table import RULES
from sdbr.static_optimizer import static_optimizer

import chainer
import numpy as np
import pytest
from chainer import optimizer_hooks, optimizers
from chainer.optimizers.adam import AdamRule
from chainer.optimizers.sgd import SGDRule

from tests.tolerances import LAST_BIT, ROUNDINGS

#: Chainer's optimizers of which no rule has native code.
OTHERS = {
    name: cls
    for name, cls in vars(optimizers).items()
    if isinstance(cls, type) and type(cls().create_update_rule()) not in RULES
}


def params(optimizer):
    return list(optimizer.target.params())


def counts(both):
    s = both.static.update_statistics
    return s.native_calls, s.mixed_updates, s.python_updates


@pytest.mark.parametrize("name", OTHERS)
def test_rules_without_native_code(pair, name):
    both = pair(OTHERS[name])
    both.step(3)
    assert counts(both) == (0, 0, 3)
    assert "has no native code (10 times)" in both.static.update_plan.reason
    assert both.static.update_plan.describe().startswith("native: nothing\nChainer: update rule")


def test_native_hooks_before_rules_without_native_code(pair):
    both = pair(optimizers.AdaGrad)
    both.each(lambda o: o.add_hook(optimizer_hooks.GradientClipping(1.0)))
    both.step(3)
    assert counts(both) == (3, 3, 0)


class Halved(SGDRule):
    def update_core_cpu(self, param):
        param.data -= 0.5 * self.hyperparam.lr * param.grad


def test_rules_of_two_kinds(pair):
    def mix(optimizer):
        params(optimizer)[1].update_rule = Halved(optimizer.hyperparam)
        params(optimizer)[2].update_rule = AdamRule()
        params(optimizer)[3].update_rule = None

    both = pair(optimizers.SGD, prepare=mix)
    both.step(4)
    assert counts(both) == (4, 4, 0)
    assert both.static.update_plan.python_params == [params(both.static)[1]]
    both.each(lambda o: setattr(params(o)[1], "update_rule", None))
    both.step()
    assert counts(both) == (5, 4, 0)
    assert both.static.update_plan.reason is None


def test_rule_patched_by_hand(pair):
    both = pair(optimizers.SGD)
    both.step()

    def patch(optimizer):
        rule = params(optimizer)[0].update_rule
        rule.update_core = lambda param: param.array.fill(7)

    both.each(patch)
    both.step()
    assert counts(both) == (2, 1, 0)
    assert (params(both.static)[0].array == 7).all()


def test_rule_class_patched(pair, monkeypatch):
    monkeypatch.setattr(SGDRule, "update_core_cpu", lambda self, param: param.array.fill(7))
    both = pair(optimizers.SGD)
    both.step()
    assert counts(both) == (0, 0, 1)


def record(log, tag):
    def hook(optimizer):
        p = params(optimizer)[0]
        log.append((tag, optimizer.t, p.update_rule.t, p.array.copy(), p.grad.copy()))
        optimizer.lr = 0.5

    hook.__name__ = tag
    return hook


def test_python_hooks_see_and_do_what_they_do_in_chainer(pair):
    both = pair(lambda: optimizers.SGD(lr=0.1))
    logs = [], []
    for optimizer, log in zip((both.plain, both.static), logs, strict=True):
        optimizer.add_hook(optimizer_hooks.WeightDecay(0.1))
        optimizer.add_hook(record(log, "pre"))
        optimizer.add_hook(optimizer_hooks.GradientClipping(1.0))
        optimizer.add_hook(record(log, "post"), timing="post")
    both.step(3)
    assert counts(both) == (3, 3, 0)
    for (tag, t, rule_t, p, g), other in zip(*logs, strict=True):
        assert (tag, t, rule_t) == other[:3]
        np.testing.assert_allclose(other[3], p, rtol=ROUNDINGS, atol=LAST_BIT)
        np.testing.assert_allclose(other[4], g, rtol=ROUNDINGS, atol=LAST_BIT)
    assert both.static.update_plan.python_parts == [
        "hook pre has no native code",
        "hook post has no native code",
    ]


def test_python_hook_that_clears_gradients(pair):
    def clear(optimizer):
        params(optimizer)[0].cleargrad()

    both = pair(optimizers.Adam)
    both.each(lambda o: o.add_hook(clear))
    both.step(2)
    assert counts(both) == (2, 2, 0)


def test_python_hook_that_freezes_a_parameter(pair):
    def freeze(optimizer):
        params(optimizer)[optimizer.t % 2].update_rule.enabled ^= True

    both = pair(optimizers.Adam)
    both.each(lambda o: o.add_hook(freeze))
    both.step(4)
    assert both.static.update_statistics.native_calls + counts(both)[2] == 4


def test_python_hook_of_one_rule(pair):
    def double(rule, param):
        param.grad *= 2

    both = pair(optimizers.Adam)
    both.each(lambda o: params(o)[1].update_rule.add_hook(double))
    both.step(3)
    assert counts(both) == (3, 3, 0)
    both.each(lambda o: params(o)[1].update_rule.remove_hook("double"))
    both.step()
    assert counts(both) == (4, 3, 0)


def test_gradient_noise(pair):
    both = pair(optimizers.SGD)
    both.each(lambda o: o.add_hook(optimizer_hooks.GradientNoise(0.3)))
    for _ in range(2):
        both.gradients()
        for optimizer in (both.plain, both.static):
            np.random.seed(3)
            optimizer.update()
        both.compare()
    assert counts(both) == (2, 2, 0)


@pytest.mark.parametrize("hook", [None, optimizer_hooks.WeightDecay(0.1)])
@pytest.mark.parametrize("fp32", [False, True])
def test_float16(pair, fp32, hook):
    def half(optimizer):
        p = params(optimizer)[0]
        p.array = p.array.astype(np.float16)
        if fp32:
            p.update_rule.use_fp32_update()
        if hook is not None:
            optimizer.add_hook(hook)

    both = pair(lambda: optimizers.Adam(eps=1e-3), prepare=half)
    for _ in range(3):
        both.gradients()
        both.each(lambda o: o.update())
        p, q = params(both.plain)[0], params(both.static)[0]
        assert q.dtype == np.float16
        np.testing.assert_array_equal(p.array, q.array)
    assert counts(both) == (3, 3, 0)
    assert both.static.update_statistics.builds == 1


def test_array_that_is_not_contiguous(pair):
    def transpose(optimizer):
        p = params(optimizer)[0]
        p.array = np.asfortranarray(p.array)

    both = pair(optimizers.MomentumSGD, prepare=transpose)
    both.step(2)
    assert counts(both) == (2, 2, 0)
    both.each(lambda o: setattr(params(o)[0], "array", np.ones((3, 4), np.float32)))
    both.each(lambda o: setattr(params(o)[0].update_rule, "_state", None))
    both.step(2)
    assert counts(both) == (4, 2, 0)


def test_parameter_that_is_not_initialized_yet(pair):
    def lazy(optimizer):
        with optimizer.target.child.init_scope():
            optimizer.target.child.lazy = chainer.Parameter(chainer.initializers.One())
        optimizer.target.child.lazy.update_rule = optimizer.create_update_rule()

    both = pair(optimizers.Adam, prepare=lazy)
    both.step(2)
    assert both.static.target.child.lazy.update_rule.t == 2
    assert counts(both) == (2, 2, 0)
    both.each(lambda o: o.target.child.lazy.initialize((2,)))
    both.step(2)
    assert counts(both) == (4, 2, 0)


def test_a_shared_link_is_updated_twice(pair):
    both = pair(optimizers.Adam)
    both.each(lambda o: o.target.many.add_link(o.target.child))
    both.step(2)
    assert counts(both) == (0, 0, 2)
    assert "registered twice" in both.static.update_plan.reason


def test_state_of_another_dtype(pair):
    both = pair(optimizers.MomentumSGD)
    both.step()

    def widen(optimizer):
        state = params(optimizer)[0].update_rule.state
        state["v"] = state["v"].astype(np.float64)

    both.each(widen)
    both.step(2)
    assert counts(both) == (3, 2, 0)


def test_different_loss_scales(pair):
    both = pair(optimizers.SGD)
    both.each(lambda o: setattr(params(o)[0], "_loss_scale", 4.0))
    both.step(2)
    assert counts(both) == (0, 0, 2)
    both.each(lambda o: setattr(params(o)[0], "_loss_scale", None))
    both.step()
    assert counts(both) == (1, 0, 2)


@pytest.mark.parametrize("hooked", [False, True])
def test_dynamic_loss_scaling(pair, hooked):
    both = pair(optimizers.SGD)
    if hooked:
        both.each(lambda o: o.add_hook(optimizer_hooks.WeightDecay(0.1)))
    both.step()
    both.each(lambda o: o.loss_scaling(interval=2))
    both.step(2)
    both.gradients()
    for optimizer in (both.plain, both.static):
        params(optimizer)[0].grad[0, 0] = np.nan
        with pytest.warns(UserWarning, match="Non finite"):
            optimizer.update()
    assert both.static._loss_scale == both.plain._loss_scale
    for p, q in zip(params(both.plain), params(both.static), strict=True):
        np.testing.assert_allclose(q.grad, p.grad, rtol=ROUNDINGS)
    assert both.static.t == both.plain.t == 4
    both.step(2)
    assert both.static._loss_scale == both.plain._loss_scale
    assert counts(both) == (5, 4, 1)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: optimizers.Adam(eps=1e-60), Exception),
        (lambda: optimizers.Adam(beta1=1), ZeroDivisionError),
        (lambda: optimizers.SGD(lr="fast"), Exception),
        (lambda: optimizers.SGD(lr=None), TypeError),
    ],
)
def test_errors_are_chainers(pair, make, error):
    both = pair(make)
    both.gradients()
    texts = []
    for optimizer in (both.plain, both.static):
        with pytest.raises(error) as caught:
            optimizer.update()
        texts.append((type(caught.value), str(caught.value)))
    assert texts[0] == texts[1]
    both.compare()


def test_array_as_hyperparameter(pair):
    both = pair(lambda: optimizers.SGD(lr=np.array(0.1)))
    both.step()
    assert counts(both) == (0, 0, 1)
    both.each(lambda o: setattr(o, "lr", 0.1))
    both.step()
    assert counts(both) == (1, 0, 1)


def test_adabound_switched_on_without_its_initial_rate(pair):
    both = pair(optimizers.Adam)
    both.step()
    both.each(lambda o: setattr(o, "adabound", True))
    both.gradients()
    for optimizer in (both.plain, both.static):
        with pytest.raises(AttributeError, match="initial_alpha"):
            optimizer.update()


def test_amsgrad_switched_on_without_its_state(pair):
    both = pair(optimizers.Adam)
    both.step()
    both.each(lambda o: setattr(o, "amsgrad", True))
    both.gradients()
    for optimizer in (both.plain, both.static):
        with pytest.raises(KeyError, match="vhat"):
            optimizer.update()


def test_optimizer_with_a_flow_of_its_own(pair):
    class Twice(optimizers.SGD):
        def update(self, lossfun=None, *args, **kwds):
            super().update(lossfun, *args, **kwds)
            super().update()

    both = pair(Twice)
    both.step()
    assert both.static.t == 2
    assert counts(both) == (0, 0, 1)
    assert "own update" in both.static.update_plan.reason


def test_optimizer_that_does_not_allocate(pair):
    class Sparse(optimizers.SGD):
        def reallocate_cleared_grads(self):
            pass

    both = pair(Sparse)
    both.step(2, skip=(1,))
    assert params(both.static)[1].grad is None
    assert "own reallocate_cleared_grads" in both.static.update_plan.reason


def test_not_set_up():
    plain, static = optimizers.SGD(), static_optimizer(optimizers.SGD())
    for optimizer in (plain, static):
        with pytest.raises(AttributeError):
            optimizer.update()
    assert static.update_plan is None
