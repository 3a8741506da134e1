"""One test for each thing that was wrong once and that no other test noticed."""

from __future__ import annotations

import functools
import random
import sys
import threading
import types

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L


class Scaled(chainer.Chain):
    """A layer and numbers from everywhere that Python code can keep them."""

    factor = 0.5

    def __init__(self):
        super().__init__()
        self.nested = {"a": {"b": 1.0}, "c": [[1.0]]}
        self.args = types.SimpleNamespace(beta=2.0)
        with self.init_scope():
            self.layer = L.Linear(4, 3)

    def forward(self, x):
        y = self.layer(x) * self.factor * self.nested["a"]["b"]
        if not hasattr(self, "squash"):
            return y * self.nested["c"][0][0] + self.args.beta
        return self.squash(y)


def class_attribute(model):
    model.factor = 0.75


def attribute_that_was_missing(model):
    model.squash = F.tanh


def number_in_nested_dict(model):
    model.nested["a"]["b"] = 3.0


def number_in_nested_list(model):
    model.nested["c"][0][0] = 4.0


def number_on_an_object(model):
    model.args.beta = 5.0


CHANGES = [
    class_attribute,
    attribute_that_was_missing,
    number_in_nested_dict,
    number_in_nested_list,
    number_on_an_object,
]


@pytest.mark.parametrize("change", CHANGES, ids=[c.__name__ for c in CHANGES])
def test_changed_number_is_noticed(change):
    x = np.random.RandomState(0).randn(5, 4).astype("f")
    model = Scaled()
    static = sdbr.static_graph(model.copy("copy"))
    static.nested = {"a": {"b": 1.0}, "c": [[1.0]]}
    static.args = types.SimpleNamespace(beta=2.0)
    for _ in range(3):
        np.testing.assert_allclose(static(x).array, model(x).array, 1e-5, 1e-6)
    assert static.schedule_manager.statistics.replays == 2
    change(model)
    change(static)
    for _ in range(3):
        np.testing.assert_allclose(static(x).array, model(x).array, 1e-5, 1e-6)
    assert static.schedule_manager.statistics.replays == 4


def test_accuracy_can_be_switched_off():
    x = np.random.RandomState(0).randn(5, 4).astype("f")
    t = np.arange(5, dtype="i") % 3
    model = sdbr.static_graph(L.Classifier(L.Linear(4, 3)))
    for _ in range(3):
        model(x, t)
    assert model.accuracy is not None
    model.compute_accuracy = False
    for _ in range(2):
        model(x, t)
        assert model.accuracy is None


def test_draw_of_python_is_not_frozen():
    @sdbr.static_graph
    def f(x):
        return F.tanh(x) * random.random()

    x = np.ones((2, 3), "f")
    with pytest.warns(sdbr.SdbrWarning, match=r"random\.random drew a number"):
        drawn = [float(f(x).array[0, 0]) for _ in range(4)]
    assert len(set(drawn)) == 4


def work_on(model, number, errors):
    """Calls and gradients through `model`, compared with NumPy."""
    weight, bias = model.W.array, model.b.array
    for i in range(12):
        x = np.random.RandomState(100 * number + i).randn(4 + (number + i) % 2, 4).astype("f")
        with chainer.using_config("enable_backprop", number % 2 == 0):
            v = chainer.Variable(x)
            y = model(v)
            if not np.allclose(y.array, np.tanh(x.dot(weight.T) + bias), 1e-4, 1e-5):
                errors.append(f"output of thread {number}, call {i}")
            if number % 2:
                continue
            (gx,) = chainer.grad([F.sum(y)], [v])
            if not np.allclose(gx.array, (1 - y.array**2).dot(weight), 1e-4, 1e-4):
                errors.append(f"gradient of thread {number}, call {i}")


def test_threads_do_not_share_activations_or_builds():
    # Switching often makes threads meet between any two steps of Python.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    errors: list = []

    def run(model, number):
        try:
            work_on(model, number, errors)
        except Exception as e:
            errors.append(repr(e))

    try:
        for _ in range(10):
            model = sdbr.static_graph(Squashed(4, 3))
            threads = [threading.Thread(target=run, args=(model, i)) for i in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not errors, errors
            assert model.schedule_manager.statistics.replays > 40
    finally:
        sys.setswitchinterval(interval)


class Squashed(L.Linear):
    def forward(self, x):
        return F.tanh(super().forward(x))


def test_unaligned_argument():
    x = np.random.RandomState(0).randn(5, 4).astype("f")
    unaligned = np.zeros(x.nbytes + 1, "u1")[1:].view("f").reshape(x.shape)
    unaligned[...] = x
    t = np.arange(5, dtype="i") % 3
    model = sdbr.static_graph(L.Classifier(L.Linear(4, 3)))
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0))
    optimizer.setup(model)
    losses = []
    for batch in (x, x, x, unaligned, unaligned):
        optimizer.update(model, batch, t)
        losses.append(float(model.loss.array))
    np.testing.assert_allclose(losses, losses[0], 1e-6)
    np.testing.assert_allclose(model(unaligned, t).array, model(x, t).array, 1e-6)


def test_partial_and_callable_object():
    class Square:
        def __call__(self, x):
            return F.square(x)

    x = np.full((2, 3), 2, "f")
    for f, want in ((functools.partial(F.clipped_relu, z=1.5), 1.5), (Square(), 4)):
        static = sdbr.static_graph(f)
        for _ in range(3):
            np.testing.assert_array_equal(static(x).array, np.full((2, 3), want, "f"))
        assert static.schedule_manager.statistics.replays == 2


def test_parameter_of_another_shape_before_backward():
    x = np.ones((5, 4), "f")
    model = sdbr.static_graph(L.Linear(4, 3))
    model(x)
    y = model(x)
    model.W.array = np.ones((3, 6), "f")
    y.grad = np.ones_like(y.array)
    with pytest.raises(sdbr.SdbrError, match=r"parameter W .* another shape"):
        y.backward()


def test_gradient_of_an_output_that_depends_on_nothing():
    @sdbr.static_graph
    def f(x):
        y = F.tanh(x)
        return y, chainer.Variable(y.array) * 2 + F.sum(x) * 0, F.broadcast_to(F.sum(y), (3,))

    for wanted in ((0, 1), (1,), (1, 2), (0, 2), (2,)):
        gradients = []
        for function in (f, f._sdbr_function):
            x = chainer.Variable(np.linspace(-1, 1, 6).reshape(2, 3).astype("f"))
            ys = [function(x)[i] for i in wanted]
            sum(F.sum(y * y) for y in ys).backward()
            gradients.append(x.grad)
        np.testing.assert_allclose(*gradients, 1e-5, 1e-6)
    assert f.schedule_manager.statistics.replays > 5


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_reduction_of_a_broadcast_view(axis):
    @sdbr.static_graph
    def f(x):
        y = F.broadcast_to(x, (2, 3, 4))
        return F.mean(y, axis) + F.sum(y, axis) + F.max(y, axis) + F.logsumexp(y, axis)

    for seed in range(3):
        x = chainer.Variable(np.random.RandomState(seed).randn(2, 1, 4).astype("f"))
        np.testing.assert_allclose(f(x).array, f._sdbr_function(x).array, 1e-5, 1e-5)
    assert f.schedule_manager.statistics.replays == 2


def test_boolean_selection_falls_back():
    @sdbr.static_graph
    def f(x, mask):
        return x[mask] * 2

    x = chainer.Variable(np.arange(12, dtype="f").reshape(4, 3))
    with pytest.warns(sdbr.SdbrWarning, match="boolean selection"):
        for pattern in ([1, 0, 1, 0], [1, 0, 1, 0], [0, 1, 1, 1], [0, 0, 0, 0]):
            mask = np.array(pattern, bool)
            np.testing.assert_array_equal(f(x, mask).array, x.array[mask] * 2)


class Reporting(chainer.Chain):
    """Reports and keeps what it was given."""

    def __init__(self):
        super().__init__()
        self.scale = chainer.Variable(np.full(3, 2, "f"))
        with self.init_scope():
            self.layer = L.Linear(4, 3)

    def forward(self, x):
        loss = F.sum(self.layer(x) * self.scale)
        chainer.report({"x": x, "bias": self.layer.b, "scale": self.scale, "loss": loss}, self)
        self.seen = x
        return loss


def test_step_reports_what_it_was_given():
    model = sdbr.static_graph(Reporting())
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.1))
    optimizer.setup(model)
    reporter = chainer.Reporter()
    reporter.add_observer("model", model)
    for seed in range(4):
        x = np.random.RandomState(seed).randn(5, 4).astype("f")
        observation = {}
        with reporter.scope(observation):
            optimizer.update(model, x)
        assert observation["model/x"] is x
        np.testing.assert_array_equal(observation["model/bias"].array, model.layer.b.array)
        np.testing.assert_array_equal(observation["model/scale"].array, model.scale.array)
        assert model.seen is x
    assert model.schedule_manager.statistics.replays == 3


def test_parameter_made_read_only_is_not_written():
    model = sdbr.static_graph(L.Classifier(L.Linear(4, 3)))
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.1))
    optimizer.setup(model)
    x, t = np.ones((5, 4), "f"), np.zeros(5, "i")
    for _ in range(3):
        optimizer.update(model, x, t)
    weight = model.predictor.W.array
    weight.flags.writeable = False
    before = weight.copy()
    for _ in range(2):
        with pytest.raises(ValueError, match="read-only"):
            optimizer.update(model, x, t)
        np.testing.assert_array_equal(weight, before)
    weight.flags.writeable = True
    optimizer.update(model, x, t)
    assert not np.array_equal(weight, before)


class Meddling(chainer.Chain):
    """Does things in its forward that no schedule repeats."""

    def __init__(self, meddle):
        super().__init__()
        self.meddle = meddle
        with self.init_scope():
            self.layer = L.Linear(4, 3)

    def forward(self, x):
        self.meddle(self.layer.W)
        return F.dropout(self.layer(x))


def shrink(w):
    w.array = w.array * 0.5


def shrink_data(w):
    w.data = w.data * 0.5


def copy_data(w):
    w.copydata(chainer.Variable(np.ones((3, 4), "f")))


def clear(w):
    w.cleargrad()


def reseed(w):
    np.random.seed(7)


@pytest.mark.parametrize("meddle", [shrink, shrink_data, copy_data, clear, reseed])
def test_effects_of_a_call_are_not_lost(meddle):
    x = np.random.RandomState(0).randn(5, 4).astype("f")
    model = Meddling(meddle)
    static = sdbr.static_graph(model.copy("copy"))
    with pytest.warns(sdbr.SdbrWarning, match="not static"):
        for _ in range(4):
            results = []
            for each in (model, static):
                np.random.seed(0)
                each.layer.W.grad = np.ones((3, 4), "f")
                results.append((each(x).array, each.layer.W.array.copy(), each.layer.W.grad))
            for got, want in zip(*results, strict=True):
                np.testing.assert_equal(got, want)
