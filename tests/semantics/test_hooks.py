"""Row 17: hooks see exactly what Chainer shows."""

from __future__ import annotations

import io

import sdbr

import chainer
import numpy as np
import pytest
from chainer import function_hooks, link_hooks
from chainer import functions as F
from chainer import links as L

from tests.harness.nodes import Names
from tests.harness.twins import X, mlp, pair, statistics_of, step


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
        model(XS)
    return model


XS = np.random.RandomState(0).randn(6, 4).astype("f")


def train(model):
    y = model(XS)
    model.cleargrads()
    F.sum(y * y).backward()
    return y.array


@pytest.mark.parametrize("kind", [Seen, function_hooks.TimerHook])
def test_a_hook_that_is_entered_inside_of_the_call(kind):
    """It is told of each call, which is dynamic for it."""
    hook = kind()

    def f(x):
        with hook:
            y = F.relu(x)
        return F.tanh(y)

    static = sdbr.static_graph(f)
    with pytest.warns(sdbr.SdbrWarning, match="a function hook is entered inside of the call"):
        for _ in range(4):
            static(X)
    assert len(hook.calls if kind is Seen else hook.call_history) == 4
    assert static.schedule_manager.statistics.replays == 0


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
    model(XS)
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
            model(XS)
        model.hook = hook = Seen()
        for _ in range(3):
            train(model)
        histories.append(hook.calls)
        assert len(hook.calls) == 6
    assert histories[0] == histories[1]
    assert "ReLU has a hook of its own" in str(sdbr.explain(model))
    model.hook = None
    model(XS)
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
    model(XS)
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
    assert np.isnan(model(XS).array).all()
    with chainer.using_config("debug", True), pytest.raises(RuntimeError, match="NaN"):
        model(XS)


def test_a_hook_during_the_backward_of_a_replay_sees_one_function():
    """The call ran without the hook: there is no graph of its functions to show."""
    model = net(True, 3)
    y = model(XS)
    model.cleargrads()
    with Seen() as hook:
        F.sum(y).backward()
    labels = [label for when, label, _ in hook.calls if when == "backward"]
    assert labels == ["Sum", "static_graph"]
    assert model.a.W.grad is not None


def test_function_hooks_see_what_chainer_shows():
    plain, static = pair(mlp)
    for i in range(6):
        if i in (1, 4):
            seen = []
            for model in (plain, static):
                with Names() as hook:
                    step(model, X)
                seen.append(hook.seen)
            assert seen[0] == seen[1] and "LinearFunction" in seen[0]
        else:
            step(static, X)
    assert statistics_of(static).define_by_run_calls == 2
    assert statistics_of(static).replays == 3


class LinkNames(chainer.LinkHook):
    name = "link names"

    def __init__(self):
        self.seen = []

    def forward_postprocess(self, args):
        self.seen.append(type(args.link).__name__)


def test_link_hooks_see_what_chainer_shows():
    static = sdbr.static_graph(mlp())
    step(static, X)
    step(static, X)
    with LinkNames() as hook:
        static(X)
    assert hook.seen == ["Linear", "Linear", "Linear", "MLP"]
    step(static, X)
    assert statistics_of(static).replays == 2


@pytest.mark.filterwarnings("error", "ignore:.* hook is active:sdbr.SdbrWarning")
@pytest.mark.parametrize("backprop", [True, False])
def test_local_link_hooks(backprop):
    """A hook on a link inside the chain, added before or after the trace, and deleted again."""
    static = sdbr.static_graph(mlp())
    with chainer.using_config("enable_backprop", backprop):
        for _ in range(2):
            for _ in range(3):
                static(X)
            hook = LinkNames()
            static.l2.add_hook(hook)
            replays = statistics_of(static).replays
            for _ in range(3):
                static(X)
            assert hook.seen == ["Linear"] * 3
            assert statistics_of(static).replays == replays
            static.l2.delete_hook("link names")
        static(X)
    assert statistics_of(static).replays == replays + 1


def test_debug_mode_runs_define_by_run():
    static = sdbr.static_graph(mlp())
    static(X)
    with chainer.using_config("debug", True):
        static(X)
    static(X)
    assert statistics_of(static).define_by_run_calls == 1
    assert statistics_of(static).replays == 1
