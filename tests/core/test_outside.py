"""What user code reads from outside its chain is looked at before every replay."""

from __future__ import annotations

import types

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from .harness import assert_near
from .models import Net
from .test_state import X

FACTOR = 1.0
TABLE = {"factor": 1.0, "deep": {"in": 1.0}}
OPTIONS = types.SimpleNamespace(factor=1.0)
ACTIVATION = F.tanh
SHIFT = np.zeros(3, "f")


class Settings:
    factor = 1.0


class WithClassAttribute(chainer.Chain):
    factor = 1.0

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(4, 3)

    def forward(self, x):
        return self.l(x) * self.factor


def global_number(self, x):
    return self.l(x) * FACTOR


def through_a_function(self, x):
    return self.l(x) * doubled()


def doubled():
    return 2 * FACTOR


def in_a_comprehension(self, x):
    return sum([self.l(x) * FACTOR for _ in range(2)])


def global_table(self, x):
    return self.l(x) * TABLE["factor"] * TABLE["deep"]["in"]


def global_object(self, x):
    return self.l(x) * OPTIONS.factor


def class_attribute(self, x):
    return self.l(x) * Settings.factor


def global_function(self, x):
    return ACTIVATION(self.l(x))


def global_array(self, x):
    return self.l(x) + SHIFT


def put(name, value):
    return lambda patch: patch.setitem(globals(), name, value)


CHANGES = {
    "number": (global_number, put("FACTOR", 3.0)),
    "function": (through_a_function, put("FACTOR", 3.0)),
    "comprehension": (in_a_comprehension, put("FACTOR", 3.0)),
    "table": (global_table, lambda patch: patch.setitem(TABLE, "factor", 3.0)),
    "deep": (global_table, lambda patch: patch.setitem(TABLE["deep"], "in", 3.0)),
    "object": (global_object, lambda patch: patch.setattr(OPTIONS, "factor", 3.0)),
    "class": (class_attribute, lambda patch: patch.setattr(Settings, "factor", 3.0)),
    "activation": (global_function, put("ACTIVATION", F.relu)),
    "array": (global_array, put("SHIFT", np.ones(3, "f"))),
}


def calls(static, plain, n):
    for _ in range(n):
        assert_near(static(X).array, plain(X).array, 1e-5, "output")


@pytest.mark.parametrize("name", CHANGES)
def test_globals(name, monkeypatch):
    forward, change = CHANGES[name]
    W = np.random.RandomState(0).randn(3, 4).astype("f")
    plain, static = (Net(forward, l=L.Linear(4, 3, initialW=W)) for _ in range(2))
    sdbr.static_graph(static, on_dynamic="raise")
    calls(static, plain, 4)
    replays = static.schedule_manager.statistics.replays
    assert replays >= 2
    with monkeypatch.context() as patch:
        change(patch)
        calls(static, plain, 4)
    calls(static, plain, 3)
    # Back again: the first schedule still fits.
    assert static.schedule_manager.statistics.replays >= replays + 5


def test_closures_of_functions_and_methods():
    factor, names = 1.0, ["a"]
    layer = L.Linear(4, 3)

    def scale():
        return factor * len(names)

    def f(x):
        return layer(x) * scale()

    class Inner(WithClassAttribute):
        def forward(self, x):
            return self.scaled(x)

        def scaled(self, x):
            return self.l(x) * factor

    static, model = sdbr.static_graph(f), sdbr.static_graph(Inner())
    for i in range(9):
        factor = 1.0 + i // 3
        if i == 7:
            names.append("b")
        assert_near(static(X).array, f(X).array, 1e-5, "function")
        assert_near(model(X).array, (model.l(X) * factor).array, 1e-5, "method")
    assert static.schedule_manager.statistics.traces == 4
    assert model.schedule_manager.statistics.traces == 3


def test_class_attributes_of_the_chain(monkeypatch):
    model = sdbr.static_graph(WithClassAttribute())
    for factor in (1.0, 1.0, 2.0, 2.0):
        monkeypatch.setattr(WithClassAttribute, "factor", factor)
        assert_near(model(X).array, (model.l(X) * factor).array, 1e-5, "output")
    assert model.schedule_manager.statistics.replays == 2


def test_a_replaced_global_model():
    model = Net(lambda self, x: F.tanh(self.l(x)), l=L.Linear(4, 3))

    @sdbr.static_graph
    def loss(x):
        return F.sum(model(x))

    for i in range(6):
        if i == 3:
            model = Net(lambda self, x: F.relu(self.l(x)), l=L.Linear(4, 3))
        assert_near(loss(X).array, F.sum(model(X)).array, 1e-5, "loss")
    assert loss.schedule_manager.statistics.replays == 4


def test_a_call_that_counts_is_traced_every_time():
    count = 0

    @sdbr.static_graph
    def f(x):
        nonlocal count
        count += 1
        return F.relu(x) * count

    with pytest.warns(sdbr.SdbrWarning, match="five of the last eight.*'count'"):
        for i in range(9):
            assert_near(f(X).array, np.maximum(X, 0) * (i + 1), 1e-6, "output")


def test_library_code_is_not_looked_at():
    static = sdbr.static_graph(L.Classifier(L.Linear(4, 3)))
    static(X, np.zeros(5, "i"))
    assert not static.schedule_manager.static_schedule.guards.volatile


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_model_that_reads_nothing_from_outside_needs_no_python_before_a_replay(wrapped):
    """The compiled path compares in C; conditions that Python checks cost more than a small net."""
    model = PlainChain()
    if wrapped:
        sdbr.static_graph(model)
        forward = model
    else:
        forward = model.static
    for _ in range(3):
        forward(np.ones((2, 4), "f"))
    assert model.static_schedule.guards.volatile == []


class PlainChain(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(4, 3)

    def forward(self, x):
        return F.relu(self.l(x))

    @sdbr.static_graph
    def static(self, x):
        return F.relu(self.l(x))
