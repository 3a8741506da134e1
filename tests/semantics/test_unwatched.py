"""Calls that nobody can watch, under a debugger say: all that their code can read is compared."""

from __future__ import annotations

import sys
import types
from unittest import mock

import sdbr
from sdbr.trace.watch.reads import Reads

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_near
from tests.tolerances import RESULTS

X = np.linspace(-1, 1, 12, dtype="f").reshape(4, 3)
FACTOR = 1.0
TABLE = np.ones(3, "f")
LIST = [1.0]
MODULE = types.ModuleType("unwatched_module")


class Thing:
    """A plain object that a link keeps."""

    gain = 1.0

    def __init__(self):
        self.shift = 0.0

    def times(self, x):
        """Reads its class and itself."""
        return x * self.gain + self.shift


def helper(x):
    """Reads a global."""
    return x * FACTOR


def doubled(x):
    """Takes the place of `helper`."""
    return x * 2


def shifted(self, x):
    """Takes the place of ``Net.forward``."""
    return self.l(x) + 1


class Net(chainer.Chain):
    """Reads something of each kind."""

    scale = 1.0

    def __init__(self, thing, memory):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(3, 3)
        self.thing = thing
        self.function = lambda x: x * memory["k"]

    def forward(self, x):
        """Elementwise, after one layer."""
        h = helper(self.thing.times(F.tanh(self.l(x))))
        return self.function(h * self.scale * MODULE.k * LIST[0]) + TABLE * np.float32(1)


@pytest.fixture(autouse=True)
def nobody_can_watch():
    """As if another had the trace function of the thread, on every Python."""

    def all_read_by(function):
        reads = Reads()
        reads.unseen = "a debugger has the trace function of this thread"
        reads.take_all(function)
        return reads

    MODULE.k, LIST[0], TABLE[...] = 1.0, 1.0, 1.0
    with mock.patch("sdbr.call.trace_call.all_read_by", all_read_by):
        yield


def _setattr(owner, name, value):
    return lambda thing, memory: mock.patch.object(owner or thing, name, value)


def _put(container, key, value):
    def put(thing, memory):
        holder = memory if container is None else container
        before = holder[key]
        holder[key] = value
        return mock.Mock(stop=lambda: holder.__setitem__(key, before), start=lambda: None)

    return put


CHANGES = {
    "global": _setattr(sys.modules[__name__], "FACTOR", 2.0),
    "function": _setattr(sys.modules[__name__], "helper", doubled),
    "array": _setattr(sys.modules[__name__], "TABLE", np.full(3, 5, "f")),
    "numbers of an array": _put(TABLE, 1, 7.0),
    "list": _put(LIST, 0, 3.0),
    "module": _setattr(MODULE, "k", 3.0),
    "class of an object": _setattr(Thing, "gain", 3.0),
    "object": _setattr(None, "shift", 3.0),
    "class of the link": _setattr(Net, "scale", 3.0),
    "method": _setattr(Net, "forward", shifted),
    "class of what is called": _setattr(Thing, "times", lambda self, x: x * 3),
    "enclosed": _put(None, "k", 3.0),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_is_seen(kind):
    np.random.seed(0)
    thing, memory = Thing(), {"k": 1.0}
    plain = Net(thing, memory)
    static = sdbr.static_graph(plain.copy(mode="copy"), on_dynamic="raise")
    static.thing = plain.thing
    for _ in range(3):
        assert_near(static(X).array, plain(X).array, RESULTS, "before")
    statistics = static.schedule_manager.statistics
    # What is computed of an array that nobody sees is confirmed by a second trace.
    assert statistics.traces == 2 and statistics.replays == 1
    change = CHANGES[kind](thing, memory)
    change.start()
    try:
        for _ in range(3):
            assert_near(static(X).array, plain(X).array, RESULTS, "after")
    finally:
        change.stop()
    traces, replays = statistics.traces, statistics.replays
    assert traces > 2 and replays > 1
    assert_near(static(X).array, plain(X).array, RESULTS, "as before")
    assert statistics.traces == traces and statistics.replays == replays + 1


def test_explain_says_so():
    static = sdbr.static_graph(lambda x: F.relu(x) * FACTOR)
    static(X), static(X)
    text = "all that it can read is compared before replays: a debugger has the trace function"
    assert text in str(sdbr.explain(static))


def test_what_cannot_be_compared_is_dynamic():
    things = iter(range(9))
    static = sdbr.static_graph(lambda x: F.relu(x) * (things is not None))
    with pytest.warns(sdbr.SdbrWarning, match="'things' is an iterator|cannot be watched"):
        static(X)


def test_numbers_are_not_followed():
    static = sdbr.static_graph(lambda x, k: F.relu(x) * k)
    for k in (1.0, 2.0, 1.0):
        assert_near(static(X, k).array, F.relu(X).array * k, RESULTS, f"{k}")
    assert static.schedule_manager.statistics.traces == 2


def test_what_asks_for_classes_is_dynamic():
    static = sdbr.static_graph(lambda x: F.relu(x) if type(x) is np.ndarray else x)
    with pytest.warns(sdbr.SdbrWarning, match=r"asks type\(\), which has to be watched"):
        static(X)
    assert_near(static(X).array, F.relu(X).array, RESULTS, "later")


def test_a_variable_outside_of_links_is_dynamic():
    """Nobody has seen where it lies; one in an attribute of the chain is read anew."""
    weight = chainer.Variable(np.ones(3, "f"))
    static = sdbr.static_graph(lambda x: x * weight)
    with pytest.warns(sdbr.SdbrWarning, match="nobody can watch: a debugger has the trace"):
        static(X)
    weight.array = np.full(3, 2, "f")
    assert_near(static(X).array, X * 2, RESULTS, "dynamic")
    assert static.schedule_manager.statistics.replays == 0
