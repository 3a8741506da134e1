"""Row 17 of the contract: hooks see exactly what Chainer shows."""

from __future__ import annotations

import io

import sdbr

import chainer
import numpy as np
import pytest
from chainer import function_hooks, link_hooks
from chainer import functions as F
from chainer import links as L


class Seen(chainer.FunctionHook):
    """Notes the functions and whether they came with arrays."""

    name = "Seen"

    def __init__(self):
        self.calls: list[tuple] = []

    def forward_preprocess(self, function, in_data):
        self.calls.append(("forward", function.label, len(in_data)))

    def backward_preprocess(self, function, in_data, out_grad):
        self.calls.append(("backward", function.label, len(out_grad)))


class SeenLinks(chainer.LinkHook):
    name = "SeenLinks"

    def __init__(self):
        self.calls: list[tuple] = []

    def forward_preprocess(self, args):
        self.calls.append(("before", args.link.name, args.forward_name))

    def forward_postprocess(self, args):
        self.calls.append(("after", args.link.name, args.out.shape))


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.a = L.Linear(4, 5)
            self.b = L.Linear(5, 3)

    def forward(self, x):
        return self.b(F.relu(self.a(x)))


def net(static: bool, calls: int = 0):
    np.random.seed(0)
    model = Net()
    if static:
        sdbr.static_graph(model)
    for _ in range(calls):
        model(X)
    return model


X = np.random.RandomState(0).randn(6, 4).astype("f")


def train(model):
    y = model(X)
    model.cleargrads()
    F.sum(y * y).backward()
    return y.array


@pytest.mark.parametrize("calls", [0, 1, 3])
@pytest.mark.parametrize("kind", [Seen, function_hooks.TimerHook, function_hooks.PrintHook])
def test_function_hooks_added_at_any_time(kind, calls):
    histories = []
    for static in (False, True):
        model = net(static, calls)
        hook = kind(file=io.StringIO()) if kind is function_hooks.PrintHook else kind()
        with hook:
            train(model)
        if kind is Seen:
            histories.append(hook.calls)
        elif kind is function_hooks.PrintHook:
            histories.append([x for x in hook.file.getvalue().split() if "0x" not in x])
        else:
            histories.append([name for name, _ in hook.call_history])
    assert histories[0] == histories[1]
    assert histories[0]
    assert model.schedule_manager.define_by_run_reasons == {"a function hook is active": 1}
    model(X)
    before = model.schedule_manager.statistics.replays
    train(model)
    assert model.schedule_manager.statistics.replays == before + 1


class Hooked(chainer.Chain):
    """A function node that has a hook of its own while `hook` is set."""

    def __init__(self):
        super().__init__()
        self.hook = None
        with self.init_scope():
            self.a = L.Linear(4, 4)

    def forward(self, x):
        relu = F.activation.relu.ReLU()
        if self.hook is not None:
            relu.add_hook(self.hook)
        return self.a(relu.apply((self.a(x),))[0])


@pytest.mark.parametrize("calls", [0, 1, 3])
def test_hooks_of_one_function(calls):
    histories = []
    for static in (False, True):
        np.random.seed(0)
        model = Hooked()
        if static:
            sdbr.static_graph(model)
        for _ in range(calls):
            model(X)
        model.hook = hook = Seen()
        for _ in range(3):
            train(model)
        histories.append(hook.calls)
        assert len(hook.calls) == 6
    assert histories[0] == histories[1]
    assert "ReLU has a hook of its own" in str(sdbr.explain(model))
    model.hook = None
    model(X)
    before = model.schedule_manager.statistics.replays
    train(model)
    assert model.schedule_manager.statistics.replays == before + 1


@pytest.mark.parametrize("calls", [0, 1, 3])
@pytest.mark.parametrize("where", ["with", "child", "chain"])
def test_link_hooks_added_at_any_time(where, calls):
    histories = []
    for static in (False, True):
        model = net(static, calls)
        hook = SeenLinks()
        if where == "with":
            with hook:
                train(model)
        else:
            target = model.a if where == "child" else model
            target.add_hook(hook)
            train(model)
            target.delete_hook("SeenLinks")
        histories.append(hook.calls)
    assert histories[0] == histories[1]
    assert len(histories[0]) == {"with": 6, "child": 2, "chain": 2}[where]
    model(X)
    before = model.schedule_manager.statistics.replays
    train(model)
    assert model.schedule_manager.statistics.replays == before + 1


def test_timer_link_hook():
    model = net(True, 3)
    with link_hooks.TimerHook() as hook:
        train(model)
    assert [name for name, _ in hook.call_history] == ["Linear", "Linear", "Net"]


def test_debug_mode_checks_each_function_for_nan():
    model = net(True, 3)
    model.a.W.array[...] = np.nan
    assert np.isnan(model(X).array).all()
    with chainer.using_config("debug", True), pytest.raises(RuntimeError, match="NaN"):
        model(X)


def test_a_hook_during_the_backward_of_a_replay_sees_one_function():
    """The call ran without the hook: there is no graph of its functions to show."""
    model = net(True, 3)
    y = model(X)
    model.cleargrads()
    with Seen() as hook:
        F.sum(y).backward()
    labels = [label for when, label, _ in hook.calls if when == "backward"]
    assert labels == ["Sum", "static_graph"]
    assert model.a.W.grad is not None
