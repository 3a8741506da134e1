"""Row 21 in float16: ties are frequent there, and a rounding that breaks one is no difference."""

from __future__ import annotations

import sdbr
from sdbr.functions.half_steps import HalfTanh

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.models import MLP


@pytest.mark.parametrize("seed", [16, 50])
def test_accuracies_that_a_rounding_moves(seed):
    """In the second training one moves that three disturbances do not, in the first six."""
    rng = np.random.RandomState(seed)
    np.random.seed(seed)
    with chainer.using_config("dtype", np.float16):
        model = sdbr.static_graph(L.Classifier(MLP(16, 32, 4)), on_dynamic="raise")
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.05)).setup(model)
    with chainer.using_config("sdbr_audit", 1e9):
        for _ in range(40):
            x = rng.standard_normal((60, 16)).astype("e")
            optimizer.update(model, x, rng.randint(0, 4, 60).astype("i"))
    audits = model.schedule_manager.audits
    assert (audits.passed, audits.failed, audits.failures) == (39, 0, [])
    assert model.schedule_manager.statistics.python_ops == 0


def trained(steps: int = 4):
    """The audits of a model after steps that were all audited."""
    rng = np.random.RandomState(0)
    np.random.seed(0)
    with chainer.using_config("dtype", np.float16):
        model = sdbr.static_graph(L.Classifier(MLP(5, 6, 3, F.tanh)))
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.01)).setup(model)
    with chainer.using_config("sdbr_audit", 1e9):
        for _ in range(steps):
            x = rng.standard_normal((8, 5)).astype("e")
            optimizer.update(model, x, rng.randint(0, 3, 8).astype("i"))
    return model.schedule_manager.audits


@pytest.fixture
def spoiled(monkeypatch):
    """A native gradient of tanh that is wrong by a factor."""
    original = HalfTanh.backward

    def spoil(factor):
        def wrong(b, node, xs, ys, gys, wanted):
            grads = original(b, node, xs, ys, gys, wanted)
            return [b.elementwise("mul_constant", g, floats=(factor,)) for g in grads]

        monkeypatch.setattr(HalfTanh, "backward", staticmethod(wrong))

    return spoil


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0, 1.5, -1.0])
def test_steps_whose_gradients_are_wrong_by_a_factor(factor, spoiled):
    spoiled(factor)
    assert trained().failed == (factor != 1)


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("factor", [0.0, 0.7, 1.0, 1.3, -1.0])
def test_calls_whose_gradients_are_wrong_by_a_factor(factor, spoiled):
    spoiled(factor)
    static = sdbr.static_graph(lambda x: F.tanh(x))
    rng = np.random.RandomState(0)
    with chainer.using_config("sdbr_audit", 1e9):
        for _ in range(4):
            x = chainer.Variable(rng.standard_normal((6, 5)).astype("e"))
            y = static(x)
            y.grad = rng.standard_normal((6, 5)).astype("e")
            y.backward()
    assert static.schedule_manager.audits.failed == (factor != 1)


def test_what_overflows_on_the_way_in_define_by_run_alone():
    """The gradient of a square is two times gy, times x."""
    static = sdbr.static_graph(lambda x: F.square(x), on_dynamic="raise")
    x = np.array([[0.5, 0.25, 0.75]], "e")
    with chainer.using_config("sdbr_audit", 1e9), np.errstate(all="ignore"):
        for _ in range(4):
            v = chainer.Variable(x)
            y = static(v)
            y.grad = np.full(x.shape, 4e4, "e")
            y.backward()
    audits = static.schedule_manager.audits
    assert (audits.failed, audits.failures) == (0, [])
    assert np.isfinite(v.grad).any()
