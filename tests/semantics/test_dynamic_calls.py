"""Row 10: calls that cannot be static say so with their line, and are define-by-run then."""

from __future__ import annotations

import warnings

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_all_near, assert_near
from tests.harness.models import Net, floats
from tests.harness.twins import X, agree, pair, statistics_of, step
from tests.tolerances import GRADIENTS, RESULTS


def test_closure_array_written_during_the_call():
    buffer = np.zeros((5, 4), "f")

    def forward(self, x):
        buffer[...] = np.asarray(x.array if isinstance(x, chainer.Variable) else x)
        return self.l(buffer)

    plain = Net(forward, l=L.Linear(4, 3, initialW=0.5))
    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3, initialW=0.5)))
    for i in range(5):
        agree(plain, static, X + i)
    assert statistics_of(static).replays == 4


SHIFT = floats(4)(np.random.RandomState(2))


def branch(self, x):
    h = self.l(x)
    return h * 2 if f"{float(F.sum(h).array):.3f}" > "0" else h


def in_place(self, x):
    h = self.l(x)
    h.array[0] = 0
    return h * 2


def counter(self, x):
    self.count += 1
    return self.l(x) * len(f"{self.count}")


def collected(self, x):
    self.seen.append(1)
    return self.l(x) * len(self.seen)


def item(self, x):
    return self.l(x) * hash(x[0, 0].item())


def listed(self, x):
    return self.l(x) * sum(np.repeat(x, 5).tolist())


def new_parameter(self, x):
    self.latest = chainer.Parameter(np.ones(3, "f"))
    return self.l(x) * 2


DYNAMIC = {
    "float": (branch, "float"),
    "in place": (in_place, "in place"),
    "counter": (counter, "'count'"),
    "list": (collected, "'seen'"),
    "item": (item, "item"),
    "tolist": (listed, "tolist"),
    "new parameter": (new_parameter, "'latest'"),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_calls_fall_back(name):
    forward, reason = DYNAMIC[name]
    W = np.random.RandomState(0).randn(3, 4).astype("f")
    plain, static = (Net(forward, l=L.Linear(4, 3, initialW=W)) for _ in range(2))
    plain.seen, static.seen = [], []
    plain.count = static.count = 0
    sdbr.static_graph(static)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i in range(6):
            x = X * (-1) ** i + SHIFT
            (y, g), (z, h) = step(static, x), step(plain, x)
            assert_near(y, z, RESULTS, "output")
            assert_all_near(g, h, GRADIENTS, "gradient")
    found = [w for w in caught if issubclass(w.category, sdbr.SdbrWarning)]
    assert len(found) == 1
    message = str(found[0].message)
    assert reason in message and "static_code" in message and " at ." not in message
    assert found[0].filename.endswith("twins.py")  # where the chain was called
    statistics = statistics_of(static)
    assert statistics.replays == 0 and statistics.define_by_run_calls >= 3


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_calls_raise(name):
    forward, reason = DYNAMIC[name]
    static = Net(forward, l=L.Linear(4, 3))
    static.seen, static.count = [], 0
    sdbr.static_graph(static, on_dynamic="raise")
    for _ in range(2):
        with pytest.raises(sdbr.NotStaticError, match=reason):
            static(X)


@pytest.mark.parametrize("backend", BACKENDS)
def test_reported_values(backend):
    """Variables, arrays of Variables and derived numbers reach the observation as they were."""

    def forward(self, x):
        h = self.l(x)
        chainer.report(
            {"v": F.sum(h), "a": F.mean(h).array, "s": np.abs(h.array).max(), "n": 3}, self
        )
        return h

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 3)), backend=backend)
    for i in range(4):
        got = []
        for model in (plain, static):
            reporter = chainer.Reporter()
            reporter.add_observer("main", model)
            with reporter.scope({}):
                model(X + i)
                got.append(dict(reporter.observation))
        assert list(got[1]) == list(got[0])
        for name, want in got[0].items():
            assert isinstance(got[1][name], chainer.Variable) == isinstance(want, chainer.Variable)
            a, b = (float(getattr(v, "array", v)) for v in (got[1][name], want))
            assert a == pytest.approx(b, rel=RESULTS)
    assert statistics_of(static).replays == 3


class Closed:
    """An object whose class, too, is among what it refuses to tell."""

    def __init__(self, **fields):
        object.__setattr__(self, "fields", fields)

    def __getattribute__(self, name):
        return object.__getattribute__(self, "fields")[name]


class Part:
    """One of a chain."""


def test_objects_that_are_hard_to_look_at():
    """An object that refuses to say of which class it is, and one that is deep."""
    last = first = Part()
    for _ in range(3000):
        last.next = Part()
        last = last.next
    last.k = 2.0

    def of_the_last(x):
        part = first
        for _ in range(3000):
            part = part.next
        return F.tanh(x) * part.k

    closed = Closed(k=2.0)
    fields = object.__getattribute__(closed, "fields")
    for function, change in (
        (lambda x: F.tanh(x) * closed.k, lambda: fields.update(k=3.0)),
        (of_the_last, lambda: setattr(last, "k", 3.0)),
    ):
        static = sdbr.static_graph(function, on_dynamic="raise")
        for _ in range(3):
            assert_near(static(X).array, np.tanh(X) * 2, RESULTS, "before")
        change()
        for _ in range(3):
            assert_near(static(X).array, np.tanh(X) * 3, RESULTS, "after")
        statistics = statistics_of(static)
        assert (statistics.traces, statistics.replays) == (2, 4)
