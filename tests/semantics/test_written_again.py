"""Row 8: what a call assigns is assigned in every replay, also where it lay there before."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.tolerances import RESULTS


def rows(n, i):
    return np.random.RandomState(i).randn(n, 4).astype("f")


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(4, 4, initialW=np.eye(4, dtype="f"))
        self.state = chainer.Variable(np.ones((1, 4), "f"))
        self.kept = None


class KeepsState(Net):
    def forward(self, x):
        self.kept = self.state
        return F.sum(self.l(x) + F.broadcast_to(self.state, x.shape))


class KeepsArgument(Net):
    def forward(self, x):
        self.kept = x
        return F.sum(self.l(x))


class KeepsParameter(Net):
    def forward(self, x):
        self.kept = self.l.W
        return F.sum(self.l(x))


class WritesItself(Net):
    def forward(self, x):
        self.state = self.state
        return F.sum(self.l(x) + F.broadcast_to(self.state, x.shape))


def calls(model):
    """Two keys; the second is traced while what the call assigns lies there."""
    found = []
    x = rows(3, 0)
    for i in range(9):
        if i == 4:
            model.state = chainer.Variable(rows(1, i))
        if i == 6:
            model.kept = None
        given = rows(6, i) if i == 0 else x if i < 3 else rows(3, i)
        y = model(given)
        found.append([round(float(y.array), 3), model.state is model.kept, model.kept is model.l.W])
        found.append(model.kept is given)
        found.append(getattr(getattr(model.kept, "array", model.kept), "tolist", lambda: None)())
    return found


@pytest.mark.filterwarnings("ignore:.*the call is not static")
@pytest.mark.parametrize("make", [KeepsState, KeepsArgument, KeepsParameter, WritesItself])
def test_what_lay_there_already(make):
    static = sdbr.static_graph(make())
    assert calls(static) == calls(make())
    statistics = static.schedule_manager.statistics
    if make is not KeepsParameter:  # a parameter that is assigned makes the call dynamic
        assert statistics.replays >= 6
        assert statistics.define_by_run_calls == 0


class Listener(chainer.Reporter):
    """Reads a parameter when it is told, and fails at one report."""

    def __init__(self, model, fails_at):
        super().__init__()
        self.model = model
        self.fails_at = fails_at
        self.seen: list = []
        self.add_observer("main", model)

    def report(self, values, observer=None):
        """Noted with the parameters of that moment."""
        self.seen.append(self.model.predictor.W.array.tolist())
        if len(self.seen) == self.fails_at:
            raise ValueError("stop")
        super().report(values, observer)


def steps(static):
    model = L.Classifier(L.Linear(4, 3, initialW=np.eye(3, 4, dtype="f")))
    optimizer = chainer.optimizers.SGD(0.5)
    if static:
        model, optimizer = sdbr.static_graph(model), sdbr.static_optimizer(optimizer)
    optimizer.setup(model)
    listener = Listener(model, 9)
    found = []
    for i in range(8):
        try:
            with listener.scope({}):
                optimizer.update(model, rows(5, i), np.arange(5, dtype="i") % 3)
        except ValueError:
            found.append("stopped")
        found.append([optimizer.t, model.predictor.W.array.tolist()])
    return found, listener.seen, model


@pytest.mark.parametrize("audit", ["off", "auto"])
def test_who_is_told_of_reports_is_told_before_the_update(audit):
    with chainer.using_config("sdbr_audit", audit):
        found, seen, model = steps(True)
    want, told, _ = steps(False)
    assert np.allclose(np.array(seen), np.array(told), atol=RESULTS)
    assert [x if isinstance(x, str) else x[0] for x in found] == [
        x if isinstance(x, str) else x[0] for x in want
    ]
    for a, b in zip(found, want, strict=True):
        assert a == b if isinstance(a, str) else np.allclose(a[1], b[1], atol=RESULTS)
    assert model.schedule_manager.statistics.replays >= 6
