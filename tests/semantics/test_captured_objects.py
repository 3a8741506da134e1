"""Row 8: objects that are no links, held by a chain: what a call gives to their attributes."""

from __future__ import annotations

import functools
import warnings

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_near
from tests.harness.twins import counts
from tests.tolerances import GRADIENTS, RESULTS, ROUNDINGS


class Box:
    def __init__(self):
        self.h = None
        self.factor = 2.0


class Net(chainer.Chain):
    def __init__(self, forward):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(3, 3)
        self.boxes = [Box(), Box()]
        self._forward = forward

    def forward(self, x):
        return self._forward(self, *self.boxes, x)


def written(net, a, b, x):
    a.h = F.tanh(net.l(x))
    return a.h * a.factor


def written_twice(net, a, b, x):
    a.h = F.tanh(net.l(x))
    b.h = a.h
    return a.h + b.h


def written_first_or_again(net, a, b, x):
    rows = 0 if a.h is None else a.h.shape[0]
    a.h = F.tanh(net.l(x))
    return a.h * (a.factor + rows)


def state(net, a, b, x):
    h = net.l(x)
    a.h = F.tanh(h if a.h is None else h + a.h)
    return a.h * a.factor


def state_without_history(net, a, b, x):
    h = net.l(x)
    h = F.tanh(h if a.h is None else h + a.h)
    a.h = chainer.Variable(h.array)
    return h


def state_as_array(net, a, b, x):
    h = net.l(x)
    h = h if a.h is None else h + a.h
    a.h = h.array * 0.5
    return h


def state_read_by_numpy(net, a, b, x):
    mean = 0.0 if a.h is None else float(a.h.array.mean())
    a.h = F.tanh(net.l(x))
    return a.h + mean


def handed_from_one_to_the_other(net, a, b, x):
    b.h = a.h
    a.h = F.tanh(net.l(x))
    return a.h


REPLAYED = [written, written_twice, written_first_or_again]
DYNAMIC = [
    state, state_without_history, state_as_array, state_read_by_numpy,
    handed_from_one_to_the_other,
]  # fmt: skip


@pytest.mark.parametrize("forward", REPLAYED + DYNAMIC)
def test_results_given_to_attributes_of_plain_objects(forward):
    """What only leaves the call is written by replays; what comes back is not static."""
    plain = Net(forward)
    static = sdbr.static_graph(plain.copy("copy"))
    static.boxes = [Box(), Box()]
    rng = np.random.RandomState(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        for i in range(10):
            x = rng.randn(2, 3).astype("f")
            for net in (plain, static):
                if i == 6:
                    net.boxes[0].h = None
                if i == 7:
                    net.boxes[0].factor = 3.0
            want, got = plain(x), static(x)
            np.testing.assert_allclose(got.array, want.array, rtol=RESULTS, atol=ROUNDINGS)
            for mine, its in zip(static.boxes, plain.boxes, strict=True):
                assert type(mine.h) is type(its.h)
                if its.h is not None:
                    h, w = (getattr(box.h, "array", box.h) for box in (mine, its))
                    np.testing.assert_allclose(h, w, rtol=RESULTS, atol=ROUNDINGS)
            for net, y in ((plain, want), (static, got)):
                net.cleargrads()
                F.sum(y).backward()
            np.testing.assert_allclose(
                static.l.W.grad, plain.l.W.grad, rtol=GRADIENTS, atol=RESULTS
            )
    statistics = static.schedule_manager.statistics
    if forward in REPLAYED:
        assert statistics.define_by_run_calls == 0
        assert statistics.replays >= 5


def test_what_is_kept_has_a_history_and_is_not_written_later():
    static = sdbr.static_graph(Net(written), on_dynamic="raise")
    kept = []
    for i in range(5):
        static(np.full((2, 3), i, "f"))
        kept.append((static.boxes[0].h, static.boxes[0].h.array.copy()))
    assert static.schedule_manager.statistics.replays == 4
    for h, contents in kept:
        np.testing.assert_array_equal(h.array, contents)
    static.cleargrads()
    F.sum(kept[-1][0]).backward()
    assert np.abs(static.l.W.grad).sum() > 0


class Scaled:
    """No link: what its methods read is outside of the call."""

    def __init__(self):
        self.factor = 1.0

    def times(self, x):
        return F.tanh(x) * self.factor

    def loss(self, y, t):
        return self.times(y)


def scaled_by(scaled, x):
    return F.tanh(x) * scaled.factor


@pytest.mark.parametrize(
    "function",
    [
        lambda scaled: scaled.times,
        lambda scaled: functools.partial(scaled.times),
        lambda scaled: functools.partial(scaled_by, scaled),
        lambda scaled: L.Classifier(F.identity, lossfun=scaled.loss),
    ],
    ids=["method", "partial of a method", "argument of a partial", "loss of a classifier"],
)
def test_objects_of_functions(function):
    """A number there that changes is seen; until then, and from then on, calls are replayed."""
    x = np.float32([[0.5, -1.0]])
    scaled = Scaled()
    static = sdbr.static_graph(function(scaled), on_dynamic="raise")
    is_link = isinstance(static, chainer.Link)
    if is_link:
        static.compute_accuracy = False
    for factor in (1.0, 3.0):
        scaled.factor = factor
        for _ in range(3):
            y = static(x, x) if is_link else static(x)
            assert_near(y.array, np.tanh(x) * np.float32(factor), RESULTS, f"times {factor}")
    assert counts(static) == (2, 4, 0)


class Raising:
    def __getattr__(self, name):
        raise KeyError(name)


RAISING = Raising()


def test_globals_that_raise_when_they_are_asked():
    """Whether a module's code tells the class ``float`` is no question to other objects there."""
    static = sdbr.static_graph(lambda x: F.tanh(x) * float(x.sum()), on_dynamic="raise")
    for k in range(4):
        x = np.full((2, 3), k, "f")
        assert_near(static(x).array, np.tanh(x) * x.sum(), RESULTS, f"call {k}")
    assert counts(static)[2] == 0 and counts(static)[1] >= 2
