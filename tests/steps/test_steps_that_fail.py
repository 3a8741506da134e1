"""Steps that cannot be taken: the error of define-by-run, and nothing is updated."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_near, copy_of
from tests.harness.models import MLP, Net
from tests.harness.twins import KINDS, POINTS, twins
from tests.tolerances import SUMS


def test_a_loss_that_is_no_scalar():
    """An error, nothing is updated, and a scalar loss works afterwards."""

    def forward(self, x, reduce):
        y = self.l(x) ** 2
        return F.sum(y) if reduce else y

    plain, static = twins(lambda: Net(forward, l=L.Linear(4, 3)))
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD()).setup(static)
    for _ in range(3):
        optimizer.update(static, POINTS, True)
    for _ in range(3):
        before = copy_of(static.l.W.array)
        t = optimizer.t
        # Chainer fails somewhere inside a function, where a gradient is None.
        with pytest.raises((AttributeError, TypeError)):
            chainer.optimizers.SGD().setup(plain).update(plain, POINTS, False)
        with pytest.raises((AttributeError, TypeError, sdbr.SdbrError)) as caught:
            optimizer.update(static, POINTS, False)
        np.testing.assert_array_equal(static.l.W.array, before)
        assert optimizer.t == t
    assert "set y.grad before" in str(caught.value)  # of the replays
    optimizer.update(static, POINTS, True)
    assert optimizer.t == t + 1


@pytest.mark.parametrize("returned", [None, 3.0, "loss", [1, 2]])
def test_a_loss_that_is_no_variable(returned):
    _, static = twins(lambda: Net(lambda self, x: returned, l=L.Linear(4, 3)))
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD()).setup(static)
    for _ in range(3):
        with pytest.raises(AttributeError, match="backward"):
            optimizer.update(static, POINTS)
    assert optimizer.t == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_reporter_that_does_not_know_the_model(backend):
    """KeyError as in define-by-run, where the forward fails: nothing is updated."""
    with chainer.using_config("sdbr_backend", backend):
        plain, static = twins(lambda: L.Classifier(MLP(4, 8, 3)), backend=backend)
        optimizers = [
            chainer.optimizers.Adam().setup(plain),
            sdbr.static_optimizer(chainer.optimizers.Adam()).setup(static),
        ]
        for k in range(6):
            for model, optimizer in zip((plain, static), optimizers, strict=True):
                if k in (3, 4):
                    before = copy_of(model.predictor.l1.W.array)
                    with chainer.Reporter().scope({}), pytest.raises(KeyError):
                        optimizer.update(model, POINTS, KINDS)
                    np.testing.assert_array_equal(model.predictor.l1.W.array, before)
                    assert optimizer.t == 3
                    continue
                reporter = chainer.Reporter()
                reporter.add_observer("main", model)
                seen: dict = {}
                with reporter.scope(seen):
                    optimizer.update(model, POINTS, KINDS)
                assert sorted(seen) == ["main/accuracy", "main/loss"]
        for p, q in zip(plain.params(), static.params(), strict=True):
            assert_near(q.array, p.array, SUMS, p.name)
    assert static.schedule_manager.statistics.steps == 3
