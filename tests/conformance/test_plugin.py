"""The judge: right for a decorator that does nothing, and it catches each way of being wrong."""

from __future__ import annotations

import io
import json

import sdbr  # noqa: F401  (first: it makes Chainer importable)

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import gradient_check
from chainer import links as L

from tests.conformance import table
from tests.conformance.compare import difference
from tests.conformance.decorators import Decorator, Static, by_name
from tests.conformance.judge import DYNAMIC, EXCEPTION, NOT_REPLAYED, RIGHT, UNUSABLE, WRONG, judge
from tests.conformance.plugin import Judging
from tests.conformance.step import judge_steps
from tests.tolerances import CHECK, CHECK_SECOND

RNG = np.random.RandomState(0)
X = RNG.uniform(-1, 1, (4, 3)).astype("f")
GY = RNG.uniform(-1, 1, (4, 3)).astype("f")
EPSILON = np.finfo("f").eps
GGX = RNG.uniform(-1, 1, (4, 3)).astype("f")


def judged(func, decorator, xs=(X,), gys=(GY,), params=(), **kwargs):
    return judge(func, xs, gys, params, False, decorator, **kwargs)


def tanh_of_double(x):
    return F.tanh(x * 2)


@pytest.mark.parametrize("decorator", ["identity", "sdbr"])
def test_right(decorator):
    found = judged(tanh_of_double, by_name(decorator))
    assert (found.verdict, found.detail) == (RIGHT, "")
    assert found.data == "shuffled"


@pytest.mark.parametrize("decorator", ["identity", "sdbr"])
def test_right_in_the_second_order(decorator):
    options = {"enable_double_backprop": True} if decorator == "sdbr" else {}
    found = judged(tanh_of_double, by_name(decorator, **options), ggs=(GGX,))
    assert (found.verdict, found.detail) == (RIGHT, "")


@pytest.mark.parametrize("decorator", ["identity", "sdbr"])
def test_right_with_a_link_that_has_state(decorator):
    link = L.BatchNormalization(3)
    before = link.avg_mean.copy()
    found = judged(link, by_name(decorator), params=(link.gamma, link.beta))
    assert (found.verdict, found.detail) == (RIGHT, "")
    np.testing.assert_array_equal(link.avg_mean, before)
    assert link.gamma.name == "gamma"


def frozen_forward(function):
    kept = []

    def call(self, *xs):
        if not kept:
            kept.append(function(self, *xs).array)
        y = function(self, *xs)
        y.array[...] = kept[0]
        return y

    return call


def wrong_gradient(function):
    return lambda self, *xs: function(self, *[x * 1.01 - x.array * 0.01 for x in xs])


def no_gradient(function):
    def call(self, *xs):
        return function(self, *[chainer.Variable(x.array) for x in xs])

    return call


def extra_draw(function):
    def call(self, *xs):
        np.random.rand()
        return function(self, *xs)

    return call


def failing_second(function):
    calls = []

    def call(self, *xs):
        calls.append(1)
        if len(calls) > 1:
            raise RuntimeError("second call")
        return function(self, *xs)

    return call


@pytest.mark.parametrize(
    "broken, part",
    [
        (frozen_forward, "call 1: forward 0"),
        (wrong_gradient, "call 0: input gradient 0"),
        (no_gradient, "call 0: input gradient 0"),
        (extra_draw, "call 0: next draw 0"),
    ],
)
def test_a_broken_decorator_is_wrong(broken, part):
    found = judged(tanh_of_double, Decorator(broken))
    assert found.verdict == WRONG
    assert found.detail.startswith(part)


def test_a_frozen_state_is_wrong():
    class Counting(chainer.Link):
        def __init__(self):
            super().__init__()
            self.add_persistent("seen", np.zeros(3, "f"))

        def forward(self, x):
            self.seen += x.array.sum(axis=0)
            return x * 2

    def forgetful(function):
        def call(self, x):
            before = self.link.seen.copy()
            y = function(self, x)
            self.link.seen[...] = before
            return y

        return call

    found = judged(Counting(), Decorator(forgetful))
    assert found.verdict == WRONG
    assert "state" in found.detail


def test_an_exception_in_a_replay():
    found = judged(tanh_of_double, Decorator(failing_second))
    assert found.verdict == EXCEPTION
    assert "RuntimeError: second call" in found.detail


class _Off(Static):
    """Runs everything define-by-run without a word."""

    def __init__(self):
        super().__init__(backend="off")


def test_define_by_run_in_silence_is_not_replayed():
    found = judged(tanh_of_double, _Off())
    assert found.verdict == NOT_REPLAYED
    assert "backend off" in found.detail


def test_a_warning_makes_it_declared_dynamic():
    def counting(x):
        return x * len(str(x.array))

    found = judged(counting, by_name("sdbr"))
    assert found.verdict == DYNAMIC
    assert "not static" in found.detail


def test_define_by_run_that_fails_or_varies_is_unusable():
    def failing(x):
        raise ValueError("never works")

    counts = []

    def varying(x):
        counts.append(1)
        return x * len(counts)

    assert judged(failing, by_name("identity")).verdict == UNUSABLE
    assert judged(varying, by_name("identity")).verdict == UNUSABLE


def test_a_result_that_is_only_rounding_is_unusable():
    def rounding(x):
        return x * 3 - x * 2 - x

    def off(function):
        return lambda self, x: function(self, x) + np.float32(EPSILON)

    found = judged(rounding, Decorator(off))
    assert (found.verdict, found.detail) == (UNUSABLE, "only rounding: forward 0")
    assert (
        judged(tanh_of_double, Decorator(lambda f: lambda self, x: f(self, x) * 2)).verdict == WRONG
    )
    assert judged(rounding, Decorator(wrong_gradient)).verdict == WRONG


def test_the_plugin_replaces_the_checks_and_makes_them_as_well():
    log = io.StringIO()
    plugin = Judging(log, "sdbr")
    original = gradient_check.check_backward
    plugin.pytest_configure(None)
    try:
        plugin.test = "chainer_tests/functions_tests/activation_tests/test_tanh.py::test"
        gradient_check.check_backward(tanh_of_double, X, GY, atol=CHECK, rtol=CHECK)
        gradient_check.check_double_backward(
            tanh_of_double, X, GY, GGX, atol=CHECK_SECOND, rtol=CHECK_SECOND
        )
        with pytest.raises(AssertionError):  # the original ran
            gradient_check.check_backward(no_gradient(lambda _, x: x * 2).__get__(0), X, GY)
    finally:
        plugin.pytest_unconfigure(None)
    assert gradient_check.check_backward is original
    entries = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(e["kind"], e["verdict"]) for e in entries] == [
        ("backward", RIGHT),
        ("double", RIGHT),
        ("backward", RIGHT),
    ]
    assert "| functions/activation | 2 | 2 |" in table.verdict_table(entries, "backward")


def test_compare():
    a = np.array([1.0, np.nan, np.inf, -1.0])
    assert difference(a, a.copy(), 0) is None
    assert difference(a * (1 + 1e-6), a, 1e-5) is None
    assert difference(a * (1 + 1e-4), a, 1e-5) is not None
    assert difference(np.array([1.0, 0.0, np.inf, -1.0]), a, 1) is not None
    assert difference(np.arange(3), np.arange(3) + 1, 1) is not None
    assert difference(None, a, 1) is not None
    assert difference(a.astype("f"), a, 1) is not None


class _Slow:
    """An optimizer whose updates are a little smaller than they should be."""

    @staticmethod
    def make(optimizer):
        optimizer.hyperparam.lr *= 0.99
        return optimizer


@pytest.mark.parametrize("decorator", ["identity", "sdbr"])
def test_whole_steps_are_right(decorator):
    found = judge_steps(tanh_of_double, (X,), (GY,), (), False, by_name(decorator))
    assert (found.verdict, found.detail) == (RIGHT, "")
    assert found.steps == (4 if decorator == "sdbr" else 0)


def test_whole_steps_with_parameters_and_state():
    link = L.BatchNormalization(3)
    before = [link.gamma.array.copy(), link.avg_mean.copy()]
    found = judge_steps(link, (X,), (GY,), (link.gamma, link.beta), False, by_name("sdbr"))
    assert (found.verdict, found.detail) == (RIGHT, "")
    for array, was in zip((link.gamma.array, link.avg_mean), before, strict=True):
        np.testing.assert_array_equal(array, was)


def test_a_wrong_update_is_wrong():
    decorator = Decorator(lambda function: function)
    decorator.optimizer = _Slow.make
    found = judge_steps(tanh_of_double, (X,), (GY,), (), False, decorator)
    assert found.verdict == WRONG
    assert found.detail.startswith("step 0: parameter 0")


def test_a_wrong_gradient_is_wrong_in_steps():
    def broken(function):
        def call(self, g):
            return function(self, g * np.float32(1.01))

        return call

    found = judge_steps(tanh_of_double, (X,), (GY,), (), False, Decorator(broken))
    assert found.verdict == WRONG


def test_steps_in_silence_are_not_replayed():
    found = judge_steps(tanh_of_double, (X,), (GY,), (), False, _Off())
    assert found.verdict == NOT_REPLAYED


@pytest.mark.parametrize("decorator", ["identity", "sdbr"])
def test_inference_is_right(decorator):
    found = judged(tanh_of_double, by_name(decorator), inference=True)
    assert (found.verdict, found.detail) == (RIGHT, "")


def test_a_frozen_inference_is_wrong():
    found = judged(tanh_of_double, Decorator(frozen_forward), inference=True)
    assert (found.verdict, found.detail[:6]) == (WRONG, "call 1")
