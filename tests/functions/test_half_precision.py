"""Casts to and from half precision are native, and exact."""

from __future__ import annotations

import sdbr

import chainer
import chainer.functions as F
import numpy as np
import pytest

X = np.random.default_rng(0).standard_normal((6, 7))
#: Numbers at which rounding, overflow and denormals of half precision begin.
EDGES = [0.0, -0.0, 1e-8, 3e-8, 6.1e-5, 1.0, 1.00048828125, 2049.0, 65504.0, 65519.9, 65520.0, 1e30]


def _both(call, x, gradient):
    """Outputs and gradients of three calls, define-by-run and static, and the static call."""
    static = sdbr.static_graph(lambda x: call(x), on_dynamic="raise")
    found = []
    for function in (call, static):
        for k in range(3):
            v = chainer.Variable((x * (k + 1)).astype(x.dtype))
            y = function(v)
            y.grad = gradient.astype(y.dtype)
            y.backward()
            found.append((y.array, v.grad))
    assert static.schedule_manager.statistics.replays == 2
    return found[:3], found[3:], static.schedule_manager.statistics


def _same(plain, static):
    for one, other in zip(plain, static, strict=True):
        for a, b in zip(one, other, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", "efd")
@pytest.mark.parametrize("to", "efd")
def test_casts(dtype, to):
    with np.errstate(all="ignore"):
        x = np.array([*EDGES, *X.ravel()], dtype)
        plain, static, statistics = _both(lambda v: F.cast(v, to), x, np.arange(x.size) / 7)
    _same(plain, static)
    assert statistics.python_ops == 0


def test_there_and_back():
    def call(x):
        return F.cast(F.cast(x, "e"), "f") * 2

    plain, static, statistics = _both(call, X.astype("f"), X / 3)
    _same(plain, static)
    assert statistics.python_ops == 0


def test_gradients_are_added_up_in_half_precision():
    def call(x):
        h = F.cast(x, "e")
        return F.cast(h, "f") * 3 + F.cast(h, "f") * 0.1

    plain, static, _ = _both(call, X.astype("f"), X / 3)
    _same(plain, static)


def test_between_functions_of_half_precision():
    def call(x):
        return F.cast(F.relu(F.cast(x, "e") * 2), "f") * x

    plain, static, statistics = _both(call, X.astype("f"), X / 3)
    _same(plain, static)
    assert statistics.python_ops == 0


class Narrow(chainer.Chain):
    """A parameter of half precision, used in single."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.w = chainer.Parameter(X.astype("e"))

    def forward(self, x):
        return F.sum(F.cast(self.w, "f") * x + F.cast(self.w, "f"))


@pytest.mark.parametrize("whole", [False, True])
def test_parameters(whole):
    found = []
    for static in (False, True):
        model = Narrow()
        optimizer = chainer.optimizers.SGD(0.1)
        if static:
            model = sdbr.static_graph(model, on_dynamic="raise")
            optimizer = sdbr.static_optimizer(optimizer) if whole else optimizer
        optimizer.setup(model)
        for _ in range(5):
            optimizer.update(model, X.astype("f"))
        found.append((model.w.array.copy(), model.w.grad.copy()))
    for a, b in zip(*found, strict=True):
        assert a.dtype == b.dtype == np.float16
        np.testing.assert_array_equal(a, b)
    assert model.schedule_manager.statistics.replays == 4
