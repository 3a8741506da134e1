"""The garbage collector while traces and programs are made."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import sdbr
from sdbr.backends.cpu import executable
from sdbr.backends.cpu.prepare.program import prepare_program
from sdbr.base._collector import PILE
from sdbr.base.collector import collector_off

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.models import Net
from tests.harness.threads import join, start, wait
from tests.harness.twins import X, mlp


@pytest.fixture(autouse=True)
def collector_on():
    assert gc.isenabled()
    yield
    gc.enable()


def test_it_is_off_until_the_last_thread_is_done():
    inside, leave = threading.Event(), threading.Event()

    def other():
        with collector_off():
            inside.set()
            wait(leave, "the end of the test")

    with collector_off():
        thread = start(other)
        wait(inside, "the other thread")
    assert not gc.isenabled()
    with collector_off(), collector_off():
        leave.set()
        join(thread)
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_stays_off_where_the_user_has_switched_it_off():
    gc.disable()
    with collector_off():
        pass
    assert not gc.isenabled()


def test_it_comes_back_after_an_error():
    with pytest.raises(KeyError), collector_off():
        raise KeyError
    assert gc.isenabled()


FORKED = """
import gc, os, threading
import sdbr
from sdbr.backends.cpu import executable
from sdbr.backends.cpu.prepare.program import prepare_program
from sdbr.base.collector import collector_off

inside = threading.Event()

def other():
    with collector_off():
        inside.set()
        threading.Event().wait(300)  # a daemon: it ends with the process

threading.Thread(target=other, daemon=True).start()
assert inside.wait(60)
child = os.fork()
if child == 0:
    with collector_off():
        pass
    os._exit(0 if gc.isenabled() else 3)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if not gc.isenabled() else 4)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_child_does_not_wait_for_threads_that_it_does_not_have():
    assert subprocess.run([sys.executable, "-c", FORKED], timeout=300).returncode == 0


class Thing:
    """What the collector can find in one of its generations."""


def is_old(thing) -> bool:
    return any(x is thing for x in gc.get_objects(generation=2))


def make(n: int) -> list:
    """`n` objects that the collector knows, made while it is off."""
    with collector_off():
        return [Thing() for _ in range(n)]


@pytest.fixture
def thawed():
    """Nothing is frozen, as in other programs; the tests freeze what they have imported."""
    gc.unfreeze()
    gc.collect()
    yield
    gc.freeze()


@pytest.fixture
def looks(thawed):
    """Which generations the collector has looked at."""
    seen = []

    def note(phase, info):
        if phase == "start":
            seen.append(info["generation"])

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


def test_much_that_is_made_while_it_is_off_is_not_looked_at(looks):
    things = make(2 * PILE)
    more = [[]]  # the collector may come by now
    assert looks == []
    assert is_old(things[0])
    assert is_old(things[-1])
    assert not is_old(more)


def test_little_is_looked_at_as_ever(looks):
    threshold = gc.get_threshold()[0]
    assert threshold < PILE // 2
    things = make(PILE // 2)
    assert not is_old(things[0])
    more = [[]]
    assert looks != []
    del more


def test_garbage_among_it_is_found_by_the_next_look_at_all(thawed):
    with collector_off():
        things = [Thing() for _ in range(2 * PILE)]
        lost = Thing()
        lost.itself = lost
        gone = weakref.ref(lost)
        del lost
    assert gone() is not None
    gc.collect()
    assert gone() is None
    del things


@pytest.mark.alone
def test_who_makes_much_all_the_time_has_it_looked_at(looks):
    """Else garbage would be there for ever: nothing is young when the collector may come by."""
    n, things = sys.getallocatedblocks(), []
    while not looks:
        assert len(things) < n
        things.append(make(2 * PILE))
        n -= PILE
    gc.collect()
    looks.clear()
    things = make(2 * PILE)
    assert looks == []  # a look at all has come in between
    assert is_old(things[0])


def test_what_the_user_has_frozen_stays_so():
    gc.collect()
    n = gc.get_freeze_count()
    assert n > 0  # by the settings of the tests
    things = make(2 * PILE)
    assert gc.get_freeze_count() == n
    assert not is_old(things[0])


def test_who_is_called_by_the_collector_is_not_the_code_of_the_call():
    """Test runners measure the collector by the clock; a thread that is done had it on again."""

    def look(phase, info):
        time.perf_counter()

    class Beside(chainer.FunctionNode):
        def forward(self, inputs):
            leave.set()
            join(*threads)
            return (inputs[0] * 2,)

    def collect_nothing():
        with collector_off():
            inside.set()
            wait(leave, "the call")

    def forward(self, x):
        h = Beside().apply((x,))[0]
        for each in [[] for _ in range(5000)]:  # enough for the collector to come by
            each.append(each)
        return F.relu(h)

    inside, leave = threading.Event(), threading.Event()
    threads = []
    gc.callbacks.append(look)
    try:
        model = sdbr.static_graph(Net(forward), on_dynamic="raise")
        x = np.ones((3, 2), "f")
        threads.append(start(collect_nothing))
        wait(inside, "the other thread")
        model(x)
        model(x)
    finally:
        gc.callbacks.remove(look)
        leave.set()
    assert model.schedule_manager.statistics.replays == 1


def test_a_dropped_chain_frees_its_schedules():
    model = sdbr.static_graph(L.Classifier(mlp()))
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(model)
    t = np.zeros(5, "i")
    for _ in range(4):
        optimizer.update(model, X, t)
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        for _ in range(3):
            model(X, t)
    refs = [weakref.ref(s) for c in model.schedule_manager.schedules.values() for s in c]
    refs += [weakref.ref(model), weakref.ref(model.schedule_manager), weakref.ref(optimizer)]
    del model, optimizer
    gc.collect()
    assert [r() for r in refs] == [None] * len(refs)


def test_it_is_off_while_programs_are_checked_and_prepared(monkeypatch):
    seen = []

    def note(program, threads):
        seen.append((program.name, gc.isenabled()))
        return prepare_program(program, threads)

    monkeypatch.setattr(executable, "prepare_program", note)
    model = sdbr.static_graph(L.Classifier(mlp()))
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(model)
    t = np.zeros(5, "i")
    for _ in range(3):
        optimizer.update(model, X, t)
    for _ in range(2):
        model(X, t).backward()
    assert dict(seen) == {"step": False, "forward": False, "backward": False}
