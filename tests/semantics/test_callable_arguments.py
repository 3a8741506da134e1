"""Row 8: functions, classes and objects to be called among the arguments: what they read."""

from __future__ import annotations

import dataclasses
import functools

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F

from tests.harness.comparison import assert_near
from tests.tolerances import RESULTS

X = np.arange(3, dtype="f")


class Scale:
    """An object to be called."""

    def __init__(self):
        self.gain = 2.0

    def __call__(self, y):
        return y * self.gain


class Gains:
    gain = 2.0

    @classmethod
    @sdbr.static_graph
    def scaled(cls, x):
        return F.sum(x) * cls.gain


def of_object():
    thing = Scale()
    return thing, lambda: setattr(thing, "gain", 5.0)


def of_method():
    thing = Scale()
    return thing.__call__, lambda: setattr(thing, "gain", 5.0)


def of_closure():
    gains = [2.0]
    return lambda y: y * gains[0], lambda: gains.__setitem__(0, 5.0)


def of_partial():
    gains = {"gain": 2.0}
    kept = functools.partial(lambda y, gains: y * gains["gain"], gains=gains)
    return kept, lambda: gains.update(gain=5.0)


def of_class():
    scaled = classmethod(lambda cls, y: y * cls.gain)
    made = type("Made", (), {"gain": 2.0, "scaled": scaled})
    return made.scaled, lambda: setattr(made, "gain", 5.0)


ALL = pytest.mark.parametrize("made", [of_object, of_method, of_closure, of_partial, of_class])


class Net(chainer.Chain):
    def forward(self, x, act):
        return act(F.sum(x))

    @sdbr.static_graph
    def among(self, x, *, acts):
        return acts[1](F.sum(x))


def check(call, change, statistics):
    def both():
        got = call()
        with chainer.using_config("use_static_graph", False):
            assert_near(got.array, call().array, RESULTS, "result")
        return statistics().replays

    assert [both() for _ in range(3)] == [0, 1, 2]
    change()
    assert [both() for _ in range(2)] == [2, 3]


@ALL
def test_of_a_function(made):
    act, change = made()
    call = sdbr.static_graph(lambda x, act: act(F.sum(x)))
    check(lambda: call(X, act), change, lambda: call.schedule_manager.statistics)


@ALL
def test_of_a_link(made):
    act, change = made()
    net = sdbr.static_graph(Net())
    check(lambda: net(X, act), change, lambda: net.schedule_manager.statistics)


@ALL
def test_in_a_list(made):
    act, change = made()
    net = Net()
    check(lambda: net.among(X, acts=[F.relu, act]), change, lambda: net.schedule_manager.statistics)


def test_the_class_of_a_class_method():
    change = functools.partial(setattr, Gains, "gain", 5.0)
    scaled = vars(Gains)["scaled"].__func__
    try:
        check(lambda: Gains.scaled(X), change, lambda: scaled.schedule_manager.statistics)
    finally:
        Gains.gain = 2.0


def test_equal_ones_that_hold_something_else():
    @dataclasses.dataclass(frozen=True)
    class Scaled:
        gain: float = 2.0
        more: dict = dataclasses.field(default_factory=dict, compare=False)

        def __call__(self, y):
            return y * self.gain * self.more.get("gain", 1.0)

    one, other = Scaled(), Scaled()
    call = sdbr.static_graph(lambda x, act: act(F.sum(x)))
    for _ in range(2):
        call(X, one)
    assert call.schedule_manager.statistics.replays == 1
    check(lambda: call(X, other), lambda: other.more.update(gain=5.0), lambda: Replays(call, 1))


class Replays:
    """Those behind the first ones."""

    def __init__(self, call, first):
        self.replays = call.schedule_manager.statistics.replays - first


def test_a_method_made_anew_for_each_call_is_the_same():
    call, thing = sdbr.static_graph(lambda x, act: act(F.sum(x))), Scale()
    check(
        lambda: call(X, thing.__call__),
        lambda: setattr(thing, "gain", 5.0),
        lambda: call.schedule_manager.statistics,
    )


def test_what_is_not_read_may_change():
    class Act(Scale):
        __call__ = sdbr.static_graph(Scale.__call__)

    for act in (Scale(), Act()):
        call = sdbr.static_graph(lambda x, act: act(F.sum(x)))
        for k in range(4):
            act.step = k
            call(X, act)
        assert call.schedule_manager.statistics.replays == 3


def test_what_changes_each_time_is_not_traced_each_time():
    act = Scale()
    call = sdbr.static_graph(lambda x, act: act(F.sum(x)))
    with pytest.warns(sdbr.SdbrWarning, match="keeps changing: 'act.gain'"):
        for k in range(60):
            act.gain = 1.0 / (k + 1)
            got = call(X, act)
            assert_near(got.array, np.asarray(np.float32(3 * act.gain)), RESULTS, "result")
    assert call.schedule_manager.statistics.traces < 30
