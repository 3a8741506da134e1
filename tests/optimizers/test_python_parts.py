"""Rules, hooks and parameters without native code run Chainer's own, in Chainer's order."""

import sdbr  # noqa: F401
from sdbr.optimizers.table import RULES
from sdbr.static_optimizer import static_optimizer

import chainer
import numpy as np
import pytest
from chainer import optimizer_hooks, optimizers
from chainer.optimizers.ada_grad import AdaGradRule
from chainer.optimizers.adam import AdamRule
from chainer.optimizers.sgd import SGDRule

from tests.tolerances import LAST_BIT, RESULTS, ROUNDINGS, SUMS


class Own(AdaGradRule):
    """A rule of the user's: Chainer's own code, under another name."""


class OwnAdaGrad(optimizers.AdaGrad):
    def create_update_rule(self):
        return Own(self.hyperparam)


def params(optimizer):
    return list(optimizer.target.params())


def counts(both):
    s = both.static.update_statistics
    return s.native_calls, s.mixed_updates, s.python_updates


def test_every_rule_of_chainer_has_native_code():
    for cls in vars(optimizers).values():
        assert not isinstance(cls, type) or type(cls().create_update_rule()) in RULES


def test_rules_without_native_code(pair):
    both = pair(OwnAdaGrad)
    both.step(3)
    assert counts(both) == (0, 0, 3)
    reason = "Own has no native code, see sdbr.update_rule (10 times)"
    assert reason in both.static.update_plan.reason
    assert both.static.update_plan.describe().startswith("native: nothing\nChainer: update rule")


def test_native_hooks_before_rules_without_native_code(pair):
    both = pair(OwnAdaGrad)
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


def test_noise_of_the_users(pair):
    def noise(xp, shape, dtype, hook, rule):
        return np.full(shape, hook.eta * rule.t, dtype)

    both = pair(optimizers.SGD)
    hooks = both.each(lambda o: o.add_hook(optimizer_hooks.GradientNoise(0.3)) or last_hook(o))
    both.step(2)
    assert counts(both) == (2, 0, 0)
    for hook in hooks:
        hook.noise_func = noise
    both.step(2)
    assert counts(both) == (4, 2, 0)
    assert both.static.update_plan.python_parts == ["hook GradientNoise has another noise_func"]


def last_hook(optimizer):
    return list(optimizer._hookable._pre_update_hooks.values())[-1]


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
    # The hook meets float16 arithmetic, the rule alone that of its copy in float32.
    assert counts(both) == (3, 0 if fp32 and hook is None else 3, 0)
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
    assert counts(both) == (2, 0, 0)
    both.each(lambda o: o.target.child.lazy.initialize((2,)))
    both.step(2)
    assert counts(both) == (4, 0, 0)


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
    assert counts(both) == (2, 0, 0)
    both.each(lambda o: setattr(params(o)[1], "_loss_scale", 8.0))
    both.step(2)
    assert counts(both) == (2, 0, 2)
    both.each(lambda o: setattr(params(o)[0], "_loss_scale", None))
    both.step()
    assert counts(both) == (3, 0, 2)


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


def order(log):
    """A rule, and hooks, that tell when they are called and what they see of all parameters."""

    class Telling(AdamRule):
        def update_core(self, param):
            tell("rule", self.t)(param)
            super().update_core(param)

    def tell(name, *more):
        def hook(thing, param=None):
            optimizer = told[0]
            counts = [p.update_rule.t for p in params(optimizer)]
            sums = [(float(p.array.sum()), float(p.grad.sum())) for p in params(optimizer)]
            log.append((name, more, optimizer.t, counts if name != "rule" else None, sums))

        hook.name = name
        return hook

    told = []
    return Telling, tell, told


@pytest.mark.parametrize("places", [(0,), (3,), (9,), (2, 3, 7)])
def test_rules_and_hooks_of_python_in_chainers_order(pair, places):
    logs = [], []
    both = pair(lambda: optimizers.Adam(alpha=0.1))
    for optimizer, log in zip((both.plain, both.static), logs, strict=True):
        rule, tell, told = order(log)
        told.append(optimizer)
        for i in places:
            params(optimizer)[i].update_rule = rule(optimizer.hyperparam)
        optimizer.add_hook(optimizer_hooks.WeightDecay(0.1))
        optimizer.add_hook(tell("first"))
        optimizer.add_hook(optimizer_hooks.GradientClipping(1.0))
        optimizer.add_hook(tell("second"))
        optimizer.add_hook(optimizer_hooks.Lasso(0.1), timing="post")
        optimizer.add_hook(tell("third"), timing="post")
        optimizer.add_hook(optimizer_hooks.GradientHardClipping(-0.1, 0.1), "hard", timing="post")
    both.step(3)
    assert counts(both) == (3, 3, 0)
    assert len(logs[0]) == 3 * (3 + len(places))
    for (*what, sums), (*other, others) in zip(*logs, strict=True):
        assert what == other
        np.testing.assert_allclose(others, sums, rtol=SUMS, atol=RESULTS)


@pytest.mark.parametrize("name", ["msvag", "noise"])
@pytest.mark.parametrize("timing", ["pre", "post"])
def test_what_is_counted_before_code_of_python_runs(pair, name, timing):
    """The power of beta, and the noise of a step, are those of the step under way."""
    make = optimizers.MSVAG if name == "msvag" else optimizers.SGD
    both = pair(make, np.float64)
    for optimizer in (both.plain, both.static):
        params(optimizer)[4].update_rule = Own(optimizer.hyperparam)
        params(optimizer)[4].update_rule.hyperparam.lr = 0.1
        params(optimizer)[4].update_rule.hyperparam.eps = 0.1
        if name == "noise":
            optimizer.add_hook(optimizer_hooks.GradientNoise(0.3), timing=timing)
            params(optimizer)[5].update_rule.add_hook(
                optimizer_hooks.GradientNoise(0.1), timing=timing
            )
    both.step(5)
    assert counts(both) == (5, 5, 0)
    if name == "msvag":
        for p, q in zip(params(both.plain), params(both.static), strict=True):
            assert vars(p.update_rule).get("beta_power") == vars(q.update_rule).get("beta_power")


def test_a_rule_that_sets_the_rate_of_those_after_it(pair):
    class Slower(SGDRule):
        def update_core(self, param):
            super().update_core(param)
            self.hyperparam.parent.lr *= 0.5

    both = pair(lambda: optimizers.SGD(lr=0.5))
    for optimizer in (both.plain, both.static):
        params(optimizer)[3].update_rule = Slower(optimizer.hyperparam)
    both.step(4)
    assert counts(both) == (4, 4, 0)


@pytest.mark.parametrize("make", [optimizers.Adam, lambda: optimizers.MSVAG(beta=0.7)])
def test_a_rule_that_freezes_those_after_it(pair, make):
    class Freezing(SGDRule):
        def update_core(self, param):
            super().update_core(param)
            self.others[0].enabled ^= True

    both = pair(make, np.float64)
    for optimizer in (both.plain, both.static):
        rule = params(optimizer)[3].update_rule = Freezing(optimizer.hyperparam)
        rule.hyperparam.lr = 0.1
        rule.others = [params(optimizer)[6].update_rule]
    both.step(4)
    assert counts(both)[0] == 4
    for p, q in zip(params(both.plain), params(both.static), strict=True):
        assert p.update_rule.t == q.update_rule.t
        assert vars(p.update_rule).get("beta_power") == vars(q.update_rule).get("beta_power")


@pytest.mark.parametrize("post", [False, True])
def test_a_rule_that_clears_the_gradient_of_another(pair, post):
    class Clearing(SGDRule):
        def update_core(self, param):
            super().update_core(param)
            self.others[0].cleargrad()

    both = pair(optimizers.Adam, np.float64)
    for optimizer in (both.plain, both.static):
        rule = params(optimizer)[3].update_rule = Clearing(optimizer.hyperparam)
        rule.hyperparam.lr = 0.1
        rule.others = [params(optimizer)[6]]
        if post:
            optimizer.add_hook(optimizer_hooks.WeightDecay(0.1), timing="post")
    both.step(4)
    assert counts(both) == (4, 4, 0)
