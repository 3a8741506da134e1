"""Optimizers that are made of their arithmetic: native, whole, and what their function says."""

import math
import pickle
import re

import sdbr
from sdbr.ops.table import OPS
from sdbr.update_rule import _is_closed

import chainer
import numpy as np
import pytest
from chainer import optimizers

from tests.harness.trainings import Runs
from tests.harness.update_rules import Own


@sdbr.update_rule
def Lion(param, grad, m, lr=0.01, beta1=0.9, beta2=0.99, decay=0.0):
    """Steps of one size."""
    update = np.sign(beta1 * m + (1 - beta1) * grad)
    return param - lr * (update + decay * param), beta2 * m + (1 - beta2) * grad


def steepest(param, grad, lr=0.1):
    return param - lr * grad


Momentum = sdbr.update_rule(
    lambda param, grad, v, *, lr=0.05, momentum=0.8: (
        param + (momentum * v - lr * grad),
        momentum * v - lr * grad,
    ),
    name="Momentum",
)


@sdbr.update_rule
def Everything(param, grad, s, lr=0.02, limit=0.3):
    """Powers, choices, truth values, and what they are beside numbers."""
    odd = (abs(grad) > 0.01) & ~(param >= limit) | (grad != grad)
    step = np.where(odd, grad.clip(-limit, limit), 0.5 * grad) + grad * (s < 1)
    step = np.clip(step, -limit, limit) - np.minimum(grad**3, 0.1) / (2.0 + np.exp(-param))
    return param - lr * (step + 2.0 ** -abs(grad) + (1 + s) ** -0.5 - 1), abs(-s + grad) ** 2


@sdbr.update_rule
def Exchange(param, grad, a, b, lr=0.1):
    """New contents that are arguments."""
    return param - lr * a, grad, a


class Global:
    rate = 0.1


@sdbr.update_rule
def ByGlobal(param, grad):
    return param - Global.rate * grad


RULES = [Lion, Momentum, Own, Everything, Exchange]


def whole(runs, n):
    found = runs.static.update_statistics
    assert runs.steps == n - 1
    assert (found.python_updates, found.mixed_updates) == (0, 0)


@pytest.mark.parametrize("backend", ["cython", "numpy"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_whole_steps(rule, dtype, backend):
    runs = Runs(rule, dtype=dtype)
    with chainer.using_config("sdbr_backend", backend):
        for _ in range(40):
            runs.step()
            runs.together()
    whole(runs, 40)
    assert f"native: {rule.__name__} x 6" in runs.static.update_plan.describe()


@pytest.mark.parametrize("shape", [(), (3, 1), (70, 90)])
@pytest.mark.parametrize("rule", [*RULES, ByGlobal], ids=lambda rule: rule.__name__)
def test_gradients_that_are_there(pair, rule, shape):
    both = pair(rule, shapes=[shape])
    both.step(4)
    both.assert_native(4)


@pytest.mark.parametrize("rule", [Lion, Momentum, Own, Exchange], ids=lambda r: r.__name__)
def test_one_op_for_each_parameter(pair, rule):
    both = pair(rule)
    both.step()
    program = both.static._sdbr_engine.native.program
    assert [OPS[code].name for code in program.opcodes] == ["fused"] * 10


def test_hyperparameters_that_change(pair):
    both = pair(lambda: Own(0.02))
    both.step(3)
    both.each(lambda o: setattr(o, "alpha", 0.2))
    both.step(2)
    both.each(lambda o: setattr(o, "beta1", np.float64(0.5)))
    both.step(2)
    first = [next(o.target.params()).update_rule.hyperparam for o in (both.plain, both.static)]
    for hyperparam in first:
        hyperparam.alpha = 0.5
    both.step(2)
    statistics = both.static.update_statistics
    assert (statistics.native_calls, statistics.python_updates) == (9, 0)


def test_switches(pair):
    both = pair(lambda: Own(amsgrad=True))
    both.step(3)
    both.each(lambda o: setattr(o, "amsgrad", False))
    both.step(3)
    both.assert_native(6, builds=2)


@sdbr.update_rule
def Steps(param, grad, lr=0.1, order=1):
    for _ in range(order):
        grad = grad * 0.5
    return param - lr * grad


def test_numbers_that_decide_what_is_computed(pair):
    """The first step with another one is Python, those that come after it are native."""
    both = pair(Steps)
    both.step(2)
    both.each(lambda o: setattr(o, "order", 3))
    both.step(4)
    both.each(lambda o: setattr(o, "order", 1))
    both.step(3)
    found = both.static.update_statistics
    assert (found.native_calls, found.python_updates) == (7, 2)


@sdbr.update_rule
def Averaged(param, grad, t, mean, lr=0.1):
    mean = grad if t == 1 else 0.9 * mean + 0.1 * grad
    return param - lr * mean, mean


@sdbr.update_rule
def Warmed(param, grad, t, lr=0.1):
    return param - 0.01 * np.sign(grad) if t <= 5 else param - lr * grad


@sdbr.update_rule
def Seldom(param, grad, t, lr=0.1):
    return param - lr * grad if t % 3 else param * 0.9


@pytest.mark.parametrize(("rule", "native"), [(Averaged, 11), (Warmed, 11), (Seldom, 8)])
def test_steps_that_decide_what_is_computed(pair, rule, native):
    both = pair(rule)
    both.step(12)
    statistics = both.static.update_statistics
    assert (statistics.native_calls, statistics.builds) == (native, 1 + (rule is not Seldom))
    runs = Runs(rule)
    for _ in range(12):
        runs.step()
        runs.together()
    # Of those the first is traced.
    assert runs.steps >= native - 2


@sdbr.update_rule
def Many(param, grad, a, b, c, d, e, f, g, h, i, j, lr=0.1):
    """Ten states, each of which takes over what the one before it has."""
    return param - lr * (grad + j), grad, a, b, c, d, e, f, g, h, i


def test_many_states(pair):
    both = pair(Many)
    both.step(14)
    both.assert_native(14)


@sdbr.update_rule
def Between(param, grad, lr=0.1):
    """What is clipped is no array, or the second argument; truth values and zeros with a sign."""
    step = np.clip(0.5, -abs(grad), abs(grad)) + np.clip(grad, None, 0.1) + grad.clip(min=-0.2)
    step = step + np.where(np.isfinite(grad), grad, 0.0) + np.fix(3 * grad) * np.float32(0.1)
    step = step + np.ones_like(grad) * np.isnan(grad) + np.tanh(1 / (-abs(grad * 0) - 0))
    return param - lr * step.copy()


def test_what_is_between_two_numbers(pair):
    both = pair(Between)
    with np.errstate(divide="ignore"):
        both.step(4)
    both.assert_native(4)


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (lambda param, grad, k=0.1: param - float(k) * grad, [np.array(0.1), 0.5, np.array(0.2)]),
        (lambda param, grad, k=1: param - grad * (0.1 if k is True else 0.2), [1, True, 1.0]),
        (lambda param, grad, k=3: param - grad * 0.001 * (k // 2 + k**60 % 7), [3, 3.0, 3]),
        (lambda param, grad, k=0.0: param - grad * math.copysign(0.1, k), [0.0, -0.0, 0.0]),
    ],
)
def test_hyperparameters_that_are_equal_and_not_the_same(pair, function, values):
    both = pair(sdbr.update_rule(function))
    for value in values:
        both.each(lambda o, value=value: setattr(o, "k", value))
        both.step(2)


def test_an_array_as_hyperparameter_that_is_written_to(pair):
    rate = np.array(0.1)
    both = pair(sdbr.update_rule(lambda param, grad, k=0.1: param - float(k) * grad))
    both.each(lambda o: setattr(o, "k", rate))
    with np.printoptions(precision=1):
        both.step(2)
        rate[...] = 0.14
        both.step(2)


@sdbr.update_rule
def Later(param, grad, m, lr=0.1):
    """What a state was is read after the new one is made."""
    new = 0.9 * m + grad
    return param - lr * (new + m), new


def test_states_that_are_read_later(pair):
    both = pair(Later)
    both.step(4)
    both.assert_native(4)


def test_rules_at_other_steps(pair):
    """Of one plan, some of them make their first step."""
    both = pair(Averaged)
    both.step(3)

    def begin(optimizer):
        for param in list(optimizer.target.params())[::2]:
            param.update_rule.t = 0

    both.each(begin)
    both.step()
    found = both.static.update_statistics
    assert (found.native_calls, found.python_updates) == (3, 1)
    both.step(2)


def test_what_a_function_reads_from_outside(pair, monkeypatch):
    both = pair(ByGlobal)
    both.step(2)
    monkeypatch.setattr(Global, "rate", 0.7)
    both.step(2)
    both.assert_native(4)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda param, grad, lr=0.1: param - lr * np.sqrt(abs(grad)) * math.pi, True),
        (lambda param, grad: param - Global.rate * grad, False),
        (lambda param, grad: param - np.random.rand() * grad, False),
        (lambda param, grad: param - sum([Global.rate for _ in "a"]) * grad, False),
    ],
)
def test_functions_that_depend_on_their_arguments_alone(function, expected):
    assert _is_closed(function) is expected


def test_rules_of_single_parameters(pair):
    def mix(optimizer):
        param = next(optimizer.target.params())
        param.update_rule = Lion.Rule(lr=0.5)

    both = pair(optimizers.SGD, prepare=mix)
    both.step(3)
    both.assert_native(3)


class Louder(Lion.Rule):
    def update_core(self, param):
        super().update_core(param)
        param.array *= 2


def test_subclasses_are_code_of_their_own(pair):
    def mix(optimizer):
        next(optimizer.target.params()).update_rule = Louder()

    both = pair(Lion, prepare=mix)
    both.step(3)
    found = both.static.update_statistics
    assert (found.native_calls, found.mixed_updates) == (3, 3)


def test_snapshots(tmp_path):
    one, other = Runs(Own), Runs(Own)
    one.step(4)
    chainer.serializers.save_npz(tmp_path / "model.npz", one.static.target)
    chainer.serializers.save_npz(tmp_path / "optimizer.npz", one.static)
    for optimizer in other.both:
        chainer.serializers.load_npz(tmp_path / "model.npz", optimizer.target)
        chainer.serializers.load_npz(tmp_path / "optimizer.npz", optimizer)
    other.step(4)
    assert other.static.t == 8
    assert [p.update_rule.t for p in other.static.target.params()] == [8] * 6


def test_classes():
    optimizer = pickle.loads(pickle.dumps(Lion(0.5, decay=0.1)))
    assert (optimizer.lr, optimizer.beta1, optimizer.decay) == (0.5, 0.9, 0.1)
    assert pickle.loads(pickle.dumps(Lion.Rule)) is Lion.Rule
    assert (Lion.__doc__, Lion.__module__) == ("Steps of one size.", __name__)
    assert Lion.Rule(beta1=0.5).hyperparam.beta1 == 0.5
    assert issubclass(Lion, chainer.GradientMethod)
    assert issubclass(Lion.Rule, chainer.UpdateRule)


def refused(error, text, function, **kwargs):
    with pytest.raises(error, match=re.escape(text)):
        sdbr.update_rule(function, **kwargs)


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("numpy.linalg.norm", lambda p, g: p - g / np.linalg.norm(g)),
        ("numpy.mean", lambda p, g: p - np.mean(g)),
        (".mean of an array", lambda p, g: p - g.mean()),
        ("add by reduce", lambda p, g: p - np.add.reduce(g)),
        ("numpy.add with out", lambda p, g: np.add(p, g, out=p)),
        ("numpy.heaviside", lambda p, g: p - np.heaviside(g, 0.5)),
        ("a branch on an array", lambda p, g: p - g if (g > 0) else p),
        ("float() of an array", lambda p, g: p - math.sqrt(g)),
        ("numpy.float64", lambda p, g, lr=0.1: p - np.sqrt(lr) * g),
        ("with a numpy.ndarray", lambda p, g: p - np.ones(3) * g),
        ("truth values alone", lambda p, g: p - g * ((g > 0) * 0.5)),
        ("without an array of numbers", lambda p, g: p - np.where(g > 0, 1.0, 2.0)),
        ("without an array of numbers", lambda p, g: p - np.where(g > 0, p > 0, g > 1)),
        ("__floordiv__ of an array", lambda p, g: p - g // 2),
        ("__rmatmul__ of an array", lambda p, g: p - 2 @ g),
        ("__getitem__ of an array", lambda p, g: p - g[0]),
        ("__len__ of an array", lambda p, g: p - len(g) * g),
        ("__round__ of an array", lambda p, g: p - round(g)),
        ("numpy.where without a comparison", lambda p, g: np.where(p, p, g)),
    ],
)
def test_arithmetic_without_native_code(text, function):
    refused(sdbr.TraceError, text, function)


def test_arrays_that_are_kept():
    kept = []

    def function(param, grad, t):
        kept.append(grad)
        return param - kept[0] * 0.1

    rule = sdbr.update_rule(function)
    with pytest.raises(sdbr.TraceError, match="an array of another step"):
        rule.Rule.__dict__["_sdbr_row"].function.choose((), 2)


def writes(param, grad):
    grad *= 2
    return param - grad


def keeps(param, grad):
    param[0] = 0
    return param


def test_functions_change_nothing():
    refused(sdbr.TraceError, "changed in place", writes)
    refused(sdbr.TraceError, "changed in place", keeps)


def test_functions_cannot_change_what_they_are_given():
    """Of those that do so for some numbers alone."""

    @sdbr.update_rule
    def Late(param, grad, t):
        if t > 1:
            grad *= 2
        return param - grad

    link = chainer.Link(w=None)
    link.w.initialize(2)
    optimizer = Late().setup(link)
    for error in (None, ValueError):
        link.w.grad = np.ones(2, "f")
        if error is None:
            optimizer.update()
        else:
            with pytest.raises(error, match="read-only"):
                optimizer.update()


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("function: expected a callable, got int", 3),
        ("expected a function of param, grad", lambda param: param),
        ("expected a function of param, grad", lambda param, grad, *rest: param),
        ("expected a function of param, grad", lambda param, grad, *, lr: param),
        ("expected a function of param, grad", lambda param, grad, /, lr=0.1: param),
        ("expected a number as default of lr, got str", lambda param, grad, lr="a": param),
        ("target is no name for a hyperparameter", lambda param, grad, target=1.0: param),
        ("expected a tuple of 2 arrays (the new param, then each state), got 1",
         lambda param, grad, m: param),
        ("expected a new param, got 2", lambda param, grad: (param, grad)),
        ("Rule is no name for a hyperparameter", lambda param, grad, Rule=1.0: param),
    ],
)  # fmt: skip
def test_functions_that_are_no_rules(text, function):
    refused(TypeError, text, function)


def test_arguments():
    refused(TypeError, "name: expected a name for a class, got 'my rule'", steepest, name="my rule")
    with pytest.raises(TypeError, match=r"Lion\(lr=0.01.*unexpected keyword argument 'rate'"):
        Lion(rate=1.0)
    with pytest.raises(TypeError, match=r"Lion: expected hyperparameters lr, beta1.*got rate"):
        Lion.Rule(rate=1.0)
    assert sdbr.update_rule(name="Plain")(steepest).__name__ == "Plain"
