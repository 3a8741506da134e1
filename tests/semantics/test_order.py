"""Row 8: the order of what a call goes through is part of what it reads."""

from __future__ import annotations

import collections
import types

import sdbr

import chainer
import pytest
from chainer import functions as F

from tests.harness.comparison import assert_near
from tests.harness.twins import X
from tests.tolerances import RESULTS

FACTORS = {"a": 2.0, "b": 3.0, "c": -1.0}


class Holder:
    def __init__(self, scales):
        self.scales = scales


class Net(chainer.Chain):
    """A sum of what each name stands for, and of its place."""

    def __init__(self, scales):
        super().__init__()
        self.scales = scales

    def forward(self, x):
        held = self.scales
        while not hasattr(held, "__iter__"):
            held = held.scales
        return sum(F.tanh(x * FACTORS.get(name, 0.5)) * i for i, name in enumerate(held))


def put_last(scales, name):
    scales[name] = scales.pop(name)


def many():
    return {**FACTORS, **{f"more{i}": 1.0 for i in range(100)}}


def other_order(scales):
    """The same members; what came and went in between has moved them."""
    members = list(scales)
    for n in range(1, 2000):
        scales.clear()
        scales.update(f"passing{i}" for i in range(n))
        scales.difference_update(f"passing{i}" for i in range(n))
        scales.update(members[::-1])
        if list(scales) != members:
            return
    raise AssertionError("every order is this one")


CHANGES = {
    "dict": (lambda: dict(FACTORS), lambda held: put_last(held, "a")),
    "many": (many, lambda held: put_last(held, "a")),
    "ordered": (
        lambda: collections.OrderedDict(FACTORS),
        lambda held: held.move_to_end("a"),
    ),
    "default": (
        lambda: collections.defaultdict(float, FACTORS),
        lambda held: put_last(held, "a"),
    ),
    "nested": (lambda: Holder(dict(FACTORS)), lambda held: put_last(held.scales, "a")),
    "namespace": (
        lambda: types.SimpleNamespace(scales=dict(FACTORS)),
        lambda held: put_last(held.scales, "a"),
    ),
    "set": (lambda: {"a", "b", "c"}, other_order),
}


@pytest.mark.parametrize("name", CHANGES)
def test_another_order_is_seen(name):
    make, change = CHANGES[name]
    held = make()
    model, plain = sdbr.static_graph(Net(held), on_dynamic="raise"), Net(held)
    statistics = model.schedule_manager.statistics
    first = [model(X).array for _ in range(3)][-1]
    assert (statistics.traces, statistics.replays) == (1, 2)
    change(held)
    want = plain(X).array
    assert abs(want - first).max() > 0.01
    for _ in range(3):
        assert_near(model(X).array, want, RESULTS, "output")
    assert (statistics.traces, statistics.replays) == (2, 4)


def test_an_order_that_each_call_changes():
    """Replays would not change it: such calls run define-by-run, and say so."""

    class Turning(Net):
        def forward(self, x):
            put_last(self.scales, next(iter(self.scales)))
            return super().forward(x)

    model, plain = sdbr.static_graph(Turning(dict(FACTORS))), Turning(dict(FACTORS))
    with pytest.warns(sdbr.SdbrWarning, match="'scales'"):
        for _ in range(4):
            assert_near(model(X).array, plain(X).array, RESULTS, "output")
    assert list(model.scales) == list(plain.scales)
    assert model.schedule_manager.statistics.replays == 0
