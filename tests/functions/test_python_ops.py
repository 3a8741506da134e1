"""Python ops do what define-by-run does: configuration, missing gradients, dtypes, Variables."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F

from tests.tolerances import ONE_OP, ONE_OP_BACKWARD, RESULTS, ROUNDINGS

RNG = np.random.RandomState(0)


def batch(dtype="f", shape=(4, 3)):
    return RNG.uniform(-1, 1, shape).astype(dtype)


class OneSided(chainer.FunctionNode):
    """``a * b`` with a gradient for `a` alone."""

    def forward(self, inputs):
        self.retain_inputs((1,))
        return (inputs[0] * inputs[1],)

    def backward(self, indexes, gys):
        (b,) = self.get_retained_inputs()
        return gys[0] * b, None


class Scaled(chainer.FunctionNode):
    """``x * factor``, where the factor is kept on the node."""

    def __init__(self, factor):
        self.factor = factor

    def forward(self, inputs):
        return (inputs[0] * np.asarray(getattr(self.factor, "array", self.factor)),)

    def backward(self, indexes, gys):
        return (gys[0] * getattr(self.factor, "array", self.factor),)


def replays(f) -> int:
    return f.schedule_manager.statistics.replays


def test_the_configuration_of_code_inside_the_call():
    def f(x):
        with chainer.using_config("train", False):
            quiet = F.zoneout(x, x * 2, 0.5) + F.rrelu(x)
        return quiet + F.dropout(x, 0.5)

    static = sdbr.static_graph(f, on_dynamic="raise")
    for i in range(4):
        x = batch()
        np.random.seed(i)
        want = f(chainer.Variable(x)).array
        np.random.seed(i)
        got = static(chainer.Variable(x)).array
        np.testing.assert_allclose(got, want, rtol=ROUNDINGS)
    assert replays(static) == 3


def test_a_gradient_that_define_by_run_does_not_give_stays_none():
    @sdbr.static_graph
    def f(a, b):
        return OneSided().apply((a, b))[0]

    for i in range(4):
        a, b = chainer.Variable(batch()), chainer.Variable(batch())
        F.sum(f(a, b)).backward()
        np.testing.assert_array_equal(a.grad, b.array)
        assert b.grad is None, i
    assert replays(f) == 3


@pytest.mark.parametrize("whole_step", [False, True])
def test_a_parameter_that_no_gradient_reaches_is_updated_as_in_define_by_run(whole_step):
    def run(static):
        class Model(chainer.Chain):
            def __init__(self):
                super().__init__()
                with self.init_scope():
                    self.w = chainer.Parameter(np.ones((4, 3), "f"))
                    self.u = chainer.Parameter(np.ones((4, 3), "f"))

            def forward(self, x):
                return F.sum(OneSided().apply((x * self.w, self.u))[0])

        model = Model()
        optimizer = chainer.optimizers.SGD(0.1)
        if static:
            model = sdbr.static_graph(model, on_dynamic="raise")
            optimizer = sdbr.static_optimizer(optimizer)
        optimizer.setup(model)
        optimizer.add_hook(chainer.optimizer_hooks.WeightDecay(0.1))
        rng = np.random.RandomState(1)
        for _ in range(4):
            x = rng.uniform(-1, 1, (4, 3)).astype("f")
            if whole_step:
                optimizer.update(model, x)
            else:
                model.cleargrads()
                model(x).backward()
                optimizer.update()
        if static:
            assert model.schedule_manager.statistics.replays == 3
        return model.w.array, model.u.array

    (w, u), (want_w, want_u) = run(True), run(False)
    np.testing.assert_allclose(w, want_w, rtol=ROUNDINGS)
    np.testing.assert_allclose(u, want_u, rtol=ROUNDINGS)


@pytest.mark.parametrize("dtype", ["e", "f", "d"])
def test_gradients_of_every_float_dtype_are_added_up(dtype):
    def f(x):
        return F.tanh(x) * x + F.sin(x)

    static = sdbr.static_graph(f, on_dynamic="raise")
    for _ in range(4):
        x, y = (chainer.Variable(a) for a in [batch(dtype)] * 2)
        gy = batch(dtype)
        for g, v in ((f, x), (static, y)):
            out = g(v)
            out.grad = gy.copy()
            out.backward()
        assert y.grad.dtype == x.grad.dtype == np.dtype(dtype)
        tolerance = ONE_OP[dtype]
        np.testing.assert_allclose(y.grad, x.grad, atol=tolerance)
    assert replays(static) == 3


@pytest.mark.parametrize("kind", ["argument", "result", "array"])
def test_a_variable_that_a_node_keeps_is_that_of_the_call(kind):
    @sdbr.static_graph(on_dynamic="raise")
    def f(x, m):
        factor = {"argument": m, "result": m + 1, "array": m.array}[kind]
        return Scaled(factor).apply((x,))[0]

    for _ in range(4):
        x, m = batch(), batch()
        y = f(chainer.Variable(x), chainer.Variable(m))
        np.testing.assert_array_equal(y.array, x * (m + 1 if kind == "result" else m))
    assert replays(f) == 3


def test_a_parameter_that_a_node_keeps_is_the_present_one():
    class Model(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.w = chainer.Parameter(np.ones((4, 3), "f"))

        @sdbr.static_graph(on_dynamic="raise")
        def forward(self, x):
            return Scaled(self.w).apply((x,))[0]

    model = Model()
    for i in range(4):
        model.w.array[...] = i
        x = batch()
        np.testing.assert_array_equal(model(x).array, x * i)
    model.w.array = np.full((4, 3), 7, "f")
    np.testing.assert_array_equal(model(x).array, x * 7)


@pytest.mark.parametrize("dtype", ["e", "f", "d"])
def test_softmax_cross_entropy_for_second_derivatives_normalizes_by_the_labels_in_use(dtype):
    def f(x, t):
        return F.softmax_cross_entropy(x, t, enable_double_backprop=True)

    static = sdbr.static_graph(f, on_dynamic="raise")
    for t in ([0, 1, -1, 2], [-1, -1, -1, 0], [-1] * 4, [2, 1, 1, 0]):
        t = np.array(t, "i")
        x = batch(dtype)
        a, b = chainer.Variable(x), chainer.Variable(x)
        want, got = f(a, t), static(b, t)
        want.backward()
        got.backward()
        tolerance = ONE_OP_BACKWARD[dtype]
        np.testing.assert_allclose(got.array, want.array, rtol=tolerance)
        np.testing.assert_allclose(b.grad, a.grad, atol=tolerance)
    assert replays(static) == 3


class Powered(chainer.FunctionNode):
    """``x * log_x``, whose backward goes through the Variable that it was given."""

    def __init__(self, log_x):
        self.log_x = log_x

    def forward(self, inputs):
        return (inputs[0] * self.log_x.array,)

    def backward(self, indexes, gys):
        return (gys[0] * (1 + self.log_x),)


def test_second_derivatives_flow_through_a_variable_that_a_node_keeps():
    def f(x):
        return Powered(F.log(x)).apply((x,))[0]

    static = sdbr.static_graph(f, on_dynamic="raise", enable_double_backprop=True)
    for _ in range(4):
        found = []
        x = RNG.uniform(0.5, 2, (4, 3)).astype("f")
        for function in (f, static):
            a = chainer.Variable(x)
            (g,) = chainer.grad([F.sum(function(a))], [a], enable_double_backprop=True)
            (gg,) = chainer.grad([F.sum(g * g)], [a])
            found.append((g.array, gg.array))
        (want, want_second), (got, got_second) = found
        np.testing.assert_allclose(got, want, rtol=RESULTS)
        np.testing.assert_allclose(got_second, want_second, rtol=RESULTS)
    assert replays(static) == 3


def test_a_gradient_inside_the_call_through_a_variable_that_a_node_keeps_is_dynamic():
    def f(x):
        y = Powered(F.log(x)).apply((x,))[0]
        (g,) = chainer.grad([F.sum(y)], [x], enable_double_backprop=True)
        return F.sum(g * g)

    static = sdbr.static_graph(f)
    for i in range(3):
        x = RNG.uniform(0.5, 2, (4, 3)).astype("f")
        grads = []
        for function in (f, static):
            a = chainer.Variable(x)
            if function is static and i == 0:
                with pytest.warns(sdbr.SdbrWarning, match="keeps a Variable"):
                    loss = function(a)
            else:
                loss = function(a)
            loss.backward()
            grads.append(a.grad)
        np.testing.assert_allclose(*grads, rtol=RESULTS)
