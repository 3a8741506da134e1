"""Dynamic calls run define-by-run without a look-up, and are looked at again where it matters."""

from __future__ import annotations

import logging
import warnings

import sdbr

import chainer
import numpy as np
import pytest
from chainer import links as L

from tests.tolerances import ROUNDINGS

X = np.linspace(-1, 1, 20).astype("f").reshape(5, 4)

pytestmark = pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")


class Net(chainer.Chain):
    """Dynamic where it is told to be."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(4, 3)
        self.loud = True
        self.text = ""

    def forward(self, x, n=1):
        """A layer; what it says is made of its values."""
        y = self.l(x)
        if self.loud and chainer.config.train:
            self.text = f"{float(y.array[0, 0]):.3f}"
        return y * n


class Growing(Net):
    """Keeps a list of its calls."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def forward(self, x, n=1):
        """The layer."""
        self.calls.append(len(self.calls))
        return self.l(x) * n


def dynamic(cls=Net, calls=10, *args, **kwargs):
    """A static model that has been called so often, and its manager."""
    model = sdbr.static_graph(cls())
    for _ in range(calls):
        model(X, *args, **kwargs)
    manager = model.schedule_manager
    assert manager.plain
    return model, manager


def looked_up(monkeypatch, model, *args):
    """Whether a call is looked at in full."""
    from sdbr.call import manager as module

    seen = []
    real = module.look_up
    monkeypatch.setattr(module, "look_up", lambda *a: seen.append(a) or real(*a))
    model(*args)
    monkeypatch.undo()
    return bool(seen)


@pytest.mark.parametrize("cls", [Net, Growing])
def test_a_dynamic_call_is_counted_and_not_looked_at(monkeypatch, cls):
    model, manager = dynamic(cls)
    before, reasons = manager.statistics.to_dict(), manager.define_by_run_reasons.copy()
    assert not looked_up(monkeypatch, model, X)
    after = manager.statistics.to_dict()
    assert {k: after[k] - before[k] for k in after if after[k] != before[k]} == {
        "calls": 1,
        "define_by_run_calls": 1,
    }
    assert (manager.define_by_run_reasons - reasons).total() == 1
    assert manager.static_schedule.usage.last_call == manager.statistics.calls


def test_the_call_is_made():
    model, _ = dynamic(Growing)
    n = len(model.calls)
    model(X)
    assert len(model.calls) == n + 1


def test_another_attribute_makes_it_static():
    model, manager = dynamic()
    model.loud = False
    model(X)
    model(X)
    assert manager.statistics.replays == 1
    model.loud = True
    calls = manager.statistics.define_by_run_calls
    model(X)
    assert manager.statistics.define_by_run_calls == calls + 1


def test_another_configuration_makes_it_static():
    model, manager = dynamic()
    with chainer.using_config("train", False):
        model(X)
        model(X)
    assert manager.statistics.replays == 1
    model(X)
    assert manager.statistics.replays == 1


@pytest.mark.parametrize("args", [(X[:2],), (X, 2), (chainer.Variable(X),)])
def test_other_arguments_are_looked_at(monkeypatch, args):
    model, _ = dynamic()
    assert looked_up(monkeypatch, model, *args)


def test_floats_count_where_guards_look_at_them(monkeypatch):
    model = sdbr.static_graph(Net())
    for _ in range(10):
        model(X, 0.5)
    assert looked_up(monkeypatch, model, X, 0.5)

    class Saying(Net):
        def forward(self, x, n=1):
            self.text = f"{self.word}{float(self.l(x).array[0, 0]):.3f}"
            return super().forward(x, n)

    model = sdbr.static_graph(Saying())
    for i in range(12):  # two schedules, both dynamic: it does not matter which
        model.word = "ab"[i % 2]
        model(X, 0.5)
    assert model.schedule_manager.plain
    assert not looked_up(monkeypatch, model, X, 0.5)


def test_whole_steps_are_not_looked_at(monkeypatch):
    class Loss(Net):
        def forward(self, x):
            return chainer.functions.sum(super().forward(x) ** 2)

    model, optimizer = sdbr.static_graph(Loss()), chainer.optimizers.SGD(0.01)
    sdbr.static_optimizer(optimizer).setup(model)
    for _ in range(10):
        optimizer.update(model, X)
    calls, before = model.schedule_manager.statistics.calls, model.l.W.array.copy()
    assert not looked_up(monkeypatch, lambda x: optimizer.update(model, x), X)
    assert model.schedule_manager.statistics.calls == calls + 1
    assert (model.l.W.array != before).any()


def test_functions_are_served_alike(monkeypatch):
    link = Net()

    @sdbr.static_graph
    def f(x):
        return link(x)

    for _ in range(10):
        f(X)
    manager = f.schedule_manager
    assert manager.plain
    link.loud = False
    f(X)
    f(X)
    assert manager.statistics.replays >= 1


def test_what_drops_schedules_drops_them():
    model, manager = dynamic()
    manager.clear()
    assert not manager.plain
    traces = manager.statistics.traces
    model(X)
    assert manager.statistics.traces == traces + 1


def test_a_definition_that_changed_is_seen():
    model, manager = dynamic()

    def quiet(self, x, n=1):
        return self.l(x) * n

    before = Net.forward
    try:
        Net.forward = quiet
        model(X)
        model(X)
        assert manager.statistics.replays >= 1
    finally:
        Net.forward = before


def test_inside_of_a_trace_and_under_a_hook_nothing_is_counted_here(monkeypatch):
    inner, manager = dynamic()

    class Outer(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.inner = inner

        def forward(self, x):
            return self.inner(x)

    calls = manager.statistics.calls
    sdbr.static_graph(Outer())(X)
    assert manager.statistics.calls == calls
    with chainer.function_hooks.TimerHook():
        inner(X)
    assert manager.define_by_run_reasons["a function hook is active"] == 1


def test_now_and_then_a_call_is_looked_at():
    model, manager = dynamic()
    assert manager.plain[0].schedule.usage.served < 256
    seen = []
    real = manager.find
    manager.find = lambda *a: seen.append(manager.statistics.calls) or real(*a)
    for _ in range(600):
        model(X)
    assert len(seen) == 2


def test_every_call_is_logged(caplog):
    model, _ = dynamic()
    with caplog.at_level(logging.DEBUG, logger="sdbr"):
        model(X)
    assert "define-by-run" in caplog.text


def test_raise_goes_on_raising():
    model = sdbr.static_graph(Net(), on_dynamic="raise")
    for _ in range(8):
        with pytest.raises(sdbr.NotStaticError):
            model(X)
    assert not model.schedule_manager.plain


def test_it_was_said_once():
    model = sdbr.static_graph(Net())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(20):
            model(X)
    assert len(said) == 1 and said[0].filename == __file__


def test_a_number_that_the_call_changes_is_not_compared(monkeypatch):
    """Where no number is followed it is another one in every call."""

    class Counter(Net):
        def forward(self, x):
            self.n = getattr(self, "n", 0) + 1
            return self.l(x) * len(f"{self.n}"[:1])

    model, _ = dynamic(Counter)
    assert not looked_up(monkeypatch, model, X)
    assert model.n == 11


def test_what_was_dynamic_with_many_sizes_is_traced_when_it_may_be_static():
    """New keys are not traced any more by then; those that are known are looked at anew."""
    model = sdbr.static_graph(Net())
    for _ in range(6):
        for n in (2, 3, 4, 5):
            model(X[:n])
    statistics = model.schedule_manager.statistics
    assert statistics.traces == 4
    assert not statistics.replays
    model.loud = False
    for _ in range(60):  # each key is traced when enough replays have paid for it
        for n in (2, 3, 4, 5):
            got = model(X[:n]).array
            want = model.l(X[:n]).array
            np.testing.assert_allclose(got, want, rtol=ROUNDINGS, atol=ROUNDINGS)
    assert statistics.replays >= 120
