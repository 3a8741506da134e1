"""Row 8: code that is replaced between calls, wherever it stands, is what the next call runs."""

from __future__ import annotations

import builtins
import contextlib
import functools
import math
from math import sqrt
from unittest import mock

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer.functions import relu
from chainer.functions.activation.relu import ReLU
from numpy import cosh

from tests.tolerances import ELEMENTS, RESULTS, SUMS

GAIN = 2.0


def doubled(x):
    return F.tanh(x) * 2


def scaled_by_global(x):
    return F.tanh(x) * GAIN


def helper(x):
    return x * 3


def other_helper(x):
    return x * 5 + 1


class Base:
    scale = 2.0

    def before(self, x):
        return x * self.scale


class OtherBase:
    scale = 3.0

    def before(self, x):
        return x * self.scale + 1


class Held:
    k = 2.0

    def use(self, x):
        return x * self.k


class OtherHeld(Held):
    def use(self, x):
        return x * self.k + 5


class Net(chainer.Chain, Base):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(4, 3, initialW=np.linspace(-1, 1, 12).reshape(3, 4))
        self.held = Held()

    def forward(self, x):
        h = F.relu(self.l(self.before(self.held.use(x))))
        h = relu(helper(h)) * sqrt(4.0) + np.exp(h.array * 0) * math.hypot(3, 4)
        return h + cosh(h.array * 0) * pow(3, 2) * divmod(3, 2)[1] * int(1.5) + functions.tanh(h)


functions = F  # under another name


def another_linear(self, x):
    return F.linear(x, self.W) * 2


_relu = ReLU.forward_cpu
_relu_backward = ReLU.backward
CHANGES = {
    "a function of Chainer": (F, "relu", doubled),
    "by mock.patch": "chainer.functions.relu",
    "a function of NumPy": (np, "exp", np.sin),
    "a function of Python": (math, "hypot", math.atan2),
    "a builtin": (builtins, "divmod", lambda x, y: (1, 2)),
    "a builtin that traces replace": (builtins, "pow", lambda x, y: 7),
    "imported from Chainer": ("relu", F.sigmoid),
    "imported from NumPy": ("cosh", np.sinh),
    "imported from Python": ("sqrt", math.exp),
    "a builtin in the module": ("divmod", lambda x, y: (1, 2)),
    "one that traces replace in the module": ("pow", lambda x, y: 7),
    "a class that traces replace in the module": ("int", lambda x: 2),
    "a module": ("functions", mock.Mock(tanh=doubled)),
    "a link of Chainer": (L.Linear, "forward", another_linear),
    "a call of a link": (L.Linear, "__call__", another_linear),
    "a method above": (Base, "before", lambda self, x: x),
    "a node": (ReLU, "forward_cpu", lambda self, x: tuple(2 * y for y in _relu(self, x))),
    "a node's forward": (ReLU, "forward", lambda self, x: tuple(2 * y for y in _relu(self, x))),
    "a node's backward": (
        ReLU, "backward", lambda self, i, g: tuple(2 * x for x in _relu_backward(self, i, g)),
    ),
    "code": (helper, "__code__", other_helper.__code__),
    "bases": (Net, "__bases__", (chainer.Chain, OtherBase)),
    "the class of an object": OtherHeld,
}  # fmt: skip


@contextlib.contextmanager
def changed(name, *models):
    """Replace it for a while."""
    what = CHANGES[name]
    if isinstance(what, type):
        for model in models:
            model.held.__class__ = what
        yield
        for model in models:
            model.held.__class__ = Held
    elif name == "bases":
        Net.__bases__ = what[2]
        yield
        Net.__bases__ = (chainer.Chain, Base)
    elif isinstance(what, str):
        with mock.patch(what, doubled):
            yield
    else:
        with pytest.MonkeyPatch.context() as patch:
            if isinstance(what[0], str):
                patch.setitem(globals(), *what)
            else:
                patch.setattr(*what, raising=False)
            yield


def outcome(model, i):
    y = model(np.random.RandomState(i).randn(5, 4).astype("f"))
    model.cleargrads()
    F.sum(y * y).backward()
    return y.array.copy(), model.l.W.grad.copy()


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")  # a function node with code of a user's
@pytest.mark.parametrize("name", CHANGES)
def test_what_is_replaced_between_calls(name):
    plain, static = Net(), sdbr.static_graph(Net())
    statistics = static.schedule_manager.statistics

    def calls(n):
        for i in range(n):
            for got, want in zip(outcome(static, i), outcome(plain, i), strict=True):
                np.testing.assert_allclose(got, want, SUMS, ELEMENTS * np.abs(want).max())

    calls(5)
    before = statistics.replays
    assert before >= 3
    with changed(name, static, plain):
        calls(3)
    during = statistics.replays
    calls(3)
    assert statistics.replays >= during + 2


@pytest.mark.parametrize("name", ["a function of Chainer", "a link of Chainer", "a node", "code"])
def test_steps(name):
    """Whole steps look, too."""

    class Loss(Net):
        def forward(self, x):
            return F.sum(super().forward(x) ** 2) * 1e-3

    plain, static = Loss(), sdbr.static_graph(Loss())
    optimizers = [chainer.optimizers.SGD(), sdbr.static_optimizer(chainer.optimizers.SGD())]
    for model, optimizer in zip((plain, static), optimizers, strict=True):
        optimizer.setup(model)

    def steps(n):
        for i in range(n):
            x = np.random.RandomState(i).randn(5, 4).astype("f")
            for model, optimizer in zip((plain, static), optimizers, strict=True):
                optimizer.update(model, x)
            np.testing.assert_allclose(static.l.W.array, plain.l.W.array, SUMS, RESULTS)

    steps(4)
    assert static.schedule_manager.statistics.steps >= 2
    with changed(name):
        steps(3)
    steps(3)
    assert static.schedule_manager.statistics.steps >= 5


def wrapped(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args) * GAIN

    return wrapper


@pytest.mark.parametrize("replacement", [scaled_by_global, wrapped(F.relu)])
def test_what_was_put_into_a_library_is_followed(replacement, monkeypatch):
    """It is the user's code: what it reads is compared as what theirs elsewhere does."""
    monkeypatch.setattr(F, "relu", replacement)
    static = sdbr.static_graph(lambda x: F.relu(x) + 1)
    x = np.linspace(-1, 1, 5).astype("f")
    for i in range(8):
        monkeypatch.setitem(globals(), "GAIN", 1.0 + i // 4)
        np.testing.assert_allclose(static(x).array, replacement(x).array + 1, RESULTS)
    assert static.schedule_manager.statistics.replays == 6


def test_traces_of_others_replace_nothing():
    """While a call is traced functions of NumPy and Python are replaced, by us."""
    static = sdbr.static_graph(lambda x: F.relu(x) * math.sqrt(2.0) + np.zeros(5, "f"))
    x = np.linspace(-1, 1, 5).astype("f")
    for _ in range(3):
        static(x)

    @sdbr.static_graph
    def traced(y):
        with chainer.no_backprop_mode():
            for _ in range(3):
                inside.append(static.schedule_manager.static_schedule.guards.hold())
        return F.tanh(y)

    inside: list = []
    traced(x)
    for _ in range(3):
        static(x)
    assert inside[:3] == [True] * 3
    assert static.schedule_manager.statistics.traces == 1
