"""Row 9: what a call leaves behind comes in define-by-run's order, in all replays."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer import reporter

from tests.tolerances import RESULTS, ROUNDINGS

CALLS = 5
XS = [np.random.RandomState(i).randn(3, 4).astype("f") for i in range(CALLS)]


class Net(chainer.Chain):
    """Keeps what it reports."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.fc = L.Linear(4, 2, initialW=np.eye(2, 4, dtype="f"))
        self.loss = self.late = None


class BeforeAndAfter(Net):
    def forward(self, x):
        self.loss = F.mean(self.fc(x))
        chainer.report({"first": self.loss}, self)
        self.late = self.loss * 2
        chainer.report({"second": self.late}, self)
        return self.loss


class ReportedOnly(Net):
    def forward(self, x):
        h = self.fc(x)
        chainer.report({"first": F.sum(h)}, self)
        self.loss = F.mean(h)
        return self.loss


class InATuple(Net):
    def forward(self, x):
        h = self.fc(x)
        self.loss = (F.mean(h), F.sum(h))
        chainer.report({"first": self.loss[0]}, self)
        self.late = x * 2
        return self.loss[0]


class AsItCame(Net):
    """The argument itself is kept and reported."""

    def forward(self, x):
        self.loss = x
        chainer.report({"first": x, "w": self.fc.W}, self)
        self.late = F.mean(self.fc(x))
        return self.late, x


class Reading(chainer.Reporter):
    """Looks at the link whenever something is reported."""

    def __init__(self, fails_at=None):
        super().__init__()
        self.seen: list = []
        self.fails_at = fails_at

    def report(self, values, observer=None):
        """As Chainer's; notes what the attributes of the observer hold."""
        self.seen.append([_numbers(values), _numbers(observer.loss), _numbers(observer.late)])
        if self.fails_at in values:
            raise RuntimeError("the disk is full")
        super().report(values, observer)


def _numbers(thing):
    if isinstance(thing, dict):
        return {k: _numbers(x) for k, x in thing.items()}
    if isinstance(thing, tuple):
        return [_numbers(x) for x in thing]
    array = getattr(thing, "array", thing)
    return None if array is None else np.array(array).tolist()


def run(model, audit, backprop, fails_at=None):
    """What the reporter has seen in five calls, and the attributes after each."""
    found = []
    listener = Reading(fails_at)
    listener.add_observer("main", model)
    with (
        listener.scope({}),
        chainer.using_config("sdbr_audit", audit),
        chainer.using_config("enable_backprop", backprop),
    ):
        for x in XS:
            try:
                found.append(_numbers(model(x)))
            except RuntimeError as e:
                found.append(str(e))
            found.append([_numbers(model.loss), _numbers(model.late)])
    return found, listener.seen


@pytest.mark.parametrize("backprop", [True, False])
@pytest.mark.parametrize("audit", ["off", "auto"])
@pytest.mark.parametrize("make", [BeforeAndAfter, ReportedOnly, InATuple, AsItCame])
def test_observers_see_the_attributes_as_they_are(make, audit, backprop):
    want = run(make(), "off", backprop)
    static = sdbr.static_graph(make())
    found, seen = run(static, audit, backprop)
    if audit == "auto":
        # A listener of an audited call is told once, of the run whose numbers count.
        assert found == want[0]
    else:
        assert (found, seen) == want
    statistics = static.schedule_manager.statistics
    assert statistics.replays == CALLS - 1
    assert statistics.python_ops == 0


@pytest.mark.parametrize("backprop", [True, False])
def test_a_report_that_raises_leaves_what_was_written_before_it(backprop):
    """And nothing of what comes after; the objects stay usable."""
    want = run(BeforeAndAfter(), "off", backprop, "second")
    static = sdbr.static_graph(BeforeAndAfter())
    listening = run(static, "off", backprop)  # the trace, and calls that work
    assert listening == run(BeforeAndAfter(), "off", backprop)
    replays = static.schedule_manager.statistics.replays
    static.loss = static.late = None
    assert run(static, "off", backprop, "second") == want
    assert static.schedule_manager.statistics.replays == replays + CALLS


def test_a_schedule_counts_all_its_calls():
    static = sdbr.static_graph(BeforeAndAfter())
    for _ in range(10):
        run(static, "off", True)
    (schedule,) = static.schedule_manager.schedules.values()
    assert "50 calls" in repr(schedule[0])
    assert reporter._get_reporters() == []


@pytest.mark.parametrize("audit", ["off", "auto"])
def test_who_is_told_of_a_step_sees_the_parameters_before_the_update(audit):
    """Also where the steps before were whole ones, and are again once nobody looks."""

    class Weights(chainer.Reporter):
        def report(self, values, observer=None):
            if observer is None:
                observer = model
            seen.append(model.fc.W.array.copy())
            super().report(values, observer)

    def train(static):
        nonlocal model
        model = BeforeAndAfter()
        optimizer = chainer.optimizers.SGD(0.5)
        if static:
            model, optimizer = sdbr.static_graph(model), sdbr.static_optimizer(optimizer)
        optimizer.setup(model)
        for i, x in enumerate(XS * 2):
            listener = Weights() if 4 <= i < 7 else chainer.Reporter()
            listener.add_observer("main", model)
            with listener.scope({}), chainer.using_config("sdbr_audit", audit):
                optimizer.update(model, x)
        return model

    model: chainer.Chain
    seen: list = []
    train(False)
    want, seen = seen, []
    statistics = train(True).schedule_manager.statistics
    np.testing.assert_allclose(seen, want, rtol=RESULTS, atol=ROUNDINGS)
    assert statistics.steps == 2 * CALLS - 1 - 3
    assert statistics.python_ops == 0
