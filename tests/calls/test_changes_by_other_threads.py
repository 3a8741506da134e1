"""What another thread changes while a call is traced is none of what the call does."""

import threading

import sdbr
from sdbr.trace.arrays.provenance import TracedArray
from sdbr.trace.recorder import Recorder

import numpy as np
import pytest
from chainer import functions as F

from tests.harness.threads import LIMIT, join, start, wait

PHASE = "before"
X = np.ones(3, "f")
TABLE = np.ones(3, "f")


class Named:
    phase = "before"


def double(x):
    return F.relu(x) * (2 if Named else 3)


def assigning(x):
    global PHASE
    PHASE = "by the call"
    return F.relu(x) * 2


def by_name(x):
    setattr(Named, "pha" + "se", "by the call")
    return F.relu(x) * 2


@pytest.fixture
def meanwhile(monkeypatch):
    """Another thread, which changes something before a trace ends, as often as it is asked."""
    wanted, done = threading.Event(), threading.Event()
    changes, left = [], []

    def run():
        while True:
            wait(wanted, "a change that is asked for, or the end", 10 * LIMIT)
            wanted.clear()
            if not changes:
                return
            changes[0]()
            done.set()

    def _call(self, *args):
        result = original(self, *args)
        if left:
            left.pop()
            done.clear()
            wanted.set()
            wait(done, "the change by another thread")
        return result

    original = Recorder._call
    monkeypatch.setattr(Recorder, "_call", _call)
    thread = start(run)

    def begin(change, times):
        changes[:], left[:] = [change], [None] * times

    yield begin
    changes.clear()
    wanted.set()
    join(thread)
    globals()["PHASE"] = Named.phase = "before"


def global_(value):
    globals()["PHASE"] = value


def of_class(value):
    Named.phase = value


@pytest.mark.parametrize("change", [global_, of_class])
@pytest.mark.parametrize("value", ["a text", 3, threading.Lock()])
def test_replays_leave_it_alone(meanwhile, change, value):
    static = sdbr.static_graph(double)
    meanwhile(lambda: change(value), 1)
    np.testing.assert_array_equal(static(X).array, X * 2)
    assert value in (PHASE, Named.phase)
    change("mine")
    for _ in range(3):
        static(X)
    assert "mine" in (PHASE, Named.phase)
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays, statistics.define_by_run_calls) == (1, 3, 0)


def test_without_another_thread():
    """What the call assigns it leaves, with no other thread as well."""
    static = sdbr.static_graph(assigning)
    for _ in range(3):
        globals()["PHASE"] = "before"
        static(X)
        assert PHASE == "by the call"
    assert static.schedule_manager.statistics.replays == 2


@pytest.mark.parametrize("function", [assigning, by_name])
def test_what_the_call_assigns_is_made_again(meanwhile, function):
    """Also while there are other threads."""
    static = sdbr.static_graph(function)
    for _ in range(3):
        globals()["PHASE"] = Named.phase = "before"
        static(X)
        assert "by the call" in (PHASE, Named.phase)
    assert static.schedule_manager.statistics.replays == 2
    globals()["PHASE"] = "before"


def test_what_stands_for_builtins_was_put_there_by_us(meanwhile):
    """While a call is traced, its module has a ``float`` that others have not."""
    static = sdbr.static_graph(lambda x: F.relu(x) * float(x.sum()), on_dynamic="raise")
    for k in range(4):
        np.testing.assert_array_equal(static(X + k).array, (X + k) * (3 + 3 * k))
    assert static.schedule_manager.statistics.replays > 0


def stand_in_(array):
    globals()["TABLE"] = array.view(TracedArray)


def test_what_another_trace_has_put_in_its_place(meanwhile):
    """Such traces are thrown away; where that happens each time, the call says why."""
    globals()["TABLE"] = np.ones(3, "f")
    static = sdbr.static_graph(lambda x: F.relu(x) * TABLE)
    meanwhile(lambda: stand_in_(np.ones(3, "f")), 100)
    with pytest.warns(sdbr.SdbrWarning, match="another thread did.* no other thread changes"):
        for _ in range(8):
            globals()["TABLE"] = np.ones(3, "f")
            np.testing.assert_array_equal(static(X).array, X)
    statistics = static.schedule_manager.statistics
    assert statistics.replays == 0 and statistics.define_by_run_calls == 3


def test_what_the_call_reads(meanwhile):
    """As if the call itself did: it is traced again."""
    static = sdbr.static_graph(lambda x: F.relu(x) * len(PHASE))
    meanwhile(lambda: global_("after"), 1)
    np.testing.assert_array_equal(static(X).array, X * 6)
    for _ in range(3):
        np.testing.assert_array_equal(static(X).array, X * 5)
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (2, 2)
