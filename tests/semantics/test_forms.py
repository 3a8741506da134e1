"""Row 23: shapes and dtypes that depend on values are a question of the call."""

from __future__ import annotations

import io
import warnings

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_near
from tests.tolerances import RESULTS

CALLS = 24
#: What a call learns of the results, by numbers and by arrays.
FORMS = {
    "ix_": lambda a: len(np.ix_(a[0] > 0, [0, 1])[0]),
    "indexed by ix_": lambda a: a[np.ix_([0, 1], a[0] > 0)].sum(),
    "unique": lambda a: np.unique(np.sign(a)).shape[0],
    "unique and places": lambda a: np.unique(np.round(a), return_inverse=True)[1].sum(),
    "roots": lambda a: len(np.roots(np.round(a[0]))),
    "sum of roots": lambda a: abs(np.roots(a[0])).sum(),
    "complex roots": lambda a: 1 + np.iscomplexobj(np.roots([1.0, 0.0, 1.0] * a[0])),
    "emath": lambda a: 1 + np.iscomplexobj(np.emath.sqrt(a[0])),
    "eigvals": lambda a: len(np.linalg.eigvals(a[:, :2] * [[0, 1], [1, 0]]).dtype.name),
    "real_if_close": lambda a: len(np.real_if_close(a[0] + 1j * np.maximum(a[1], 0)).dtype.name),
    "lstsq": lambda a: 1 + np.linalg.lstsq(np.maximum(a.T, 0), np.ones(3), rcond=None)[1].size,
    "allclose": lambda a: 2 if np.allclose(a[0], abs(a[0])) else 3,
    "array_equal": lambda a: 2 if np.array_equal(np.sign(a[0]), np.sign(a[1])) else 3,
    "bincount": lambda a: np.bincount((a[0] > 0).astype(int)).size,
    "histogram": lambda a: np.histogram(a, bins=3)[0][0] + 1,
    "trim_zeros": lambda a: np.trim_zeros(np.round(a[0])).size + 1,
    "setdiff1d": lambda a: np.setdiff1d(np.round(a[0]), np.round(a[1])).size + 1,
    "intersect1d": lambda a: np.intersect1d(np.round(a[0]), np.round(a[1])).size + 1,
    "repeat": lambda a: np.repeat(a[0], (a[1] > 0).astype(int)).sum(),
    "split": lambda a: np.split(a[0], np.array([int(a[0].argmax())]))[0].size + 1,
    "delete": lambda a: np.delete(a[0], a[0].argmax()).sum(),
    "compress": lambda a: np.compress(a[0] > 0, a[1]).sum(),
    "compress as a method": lambda a: a[1].compress(a[0] > 0).sum(),
    "where of a list": lambda a: len(np.where([a[0] > 0, a[1] > 0])[0]) + 1,
    "polydiv": lambda a: len(np.polydiv(np.round(a[0]), [1.0, 1.0])[1]),
}


def batch(i: int) -> chainer.Variable:
    return chainer.Variable(np.random.RandomState(i).uniform(-1.5, 1.5, (2, 3)).astype("f"))


@pytest.mark.parametrize("name", FORMS)
def test_which_shapes_and_dtypes_there_are(name):
    def function(x):
        found = FORMS[name](x.array)
        return F.tanh(x) * 2, np.multiply(found, x.array)

    static = sdbr.static_graph(function, on_dynamic="raise")
    with chainer.using_config("sdbr_audit", "off"), np.errstate(all="ignore"):
        for i in range(CALLS):
            (y, z), (want, other) = static(batch(i)), function(batch(i))
            assert_near(y.array, want.array, RESULTS, f"call {i}")
            assert (z.dtype, z.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(z, other, RESULTS, RESULTS)
    statistics = static.schedule_manager.statistics
    assert statistics.replays + statistics.traces == CALLS and statistics.replays >= CALLS // 2


class Weighted(chainer.Chain):
    """Classes by how often they come up in the batch."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(3, 4)

    def forward(self, x, t):
        weights = np.bincount(t, minlength=4).astype("f") + 1
        return F.softmax_cross_entropy(self.l(x), t, class_weight=weights) * len(np.unique(t))


def test_whole_steps():
    found = []
    for decorate in (False, True):
        np.random.seed(0)
        model, optimizer = Weighted(), chainer.optimizers.Adam()
        if decorate:
            model, optimizer = sdbr.static_graph(model), sdbr.static_optimizer(optimizer)
        optimizer.setup(model)
        for i in range(30):
            rng = np.random.RandomState(i)
            x, t = rng.randn(6, 3).astype("f"), rng.randint(0, 4, 6).astype("i")
            optimizer.update(model, x, t)
        found.append(model.l.W.array)
    assert_near(found[1], found[0], RESULTS, "W")
    statistics = model.schedule_manager.statistics
    assert statistics.steps == statistics.replays == 30 - statistics.traces > 20


def test_functions_that_call_code_of_the_users_run_once():
    """They are asked for nothing: that code may count how often it runs."""
    count = []

    def twice(v):
        count.append(1)
        return v * 2

    def function(x):
        return x * np.piecewise(x.array, [x.array > 0], [twice, 3.0]).sum()

    static = sdbr.static_graph(function, on_dynamic="fallback")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        for i in range(4):
            assert_near(static(batch(i)).array, function(batch(i)).array, RESULTS, f"call {i}")
    assert len(count) == 8


def test_functions_that_do_more_than_compute():
    """What gives no arrays makes the call dynamic, and has run once in it."""
    static = sdbr.static_graph(lambda x, to: np.save(to, x.array) or x * 2, on_dynamic="fallback")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        for i in range(4):
            to, alone = io.BytesIO(), io.BytesIO()
            static(batch(i), to)
            np.save(alone, batch(i).array)
            assert to.getvalue() == alone.getvalue()
