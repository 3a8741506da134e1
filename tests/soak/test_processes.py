"""Forks, spawned processes and the garbage collector in the middle of it all."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import sys
import threading
import traceback
import weakref

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.threads import exit_code, join, start, switch_interval

from .networks import Net, Pure, answer, batch, define_by_run, is_near, static
from .together import LIMIT, watched

X = np.random.RandomState(0).randn(5, 8).astype("f")


def traced(n=2):
    """A chain that has been traced and replayed."""
    model = static(Pure)
    for _ in range(n):
        answer(model, X)
    return model


def in_fork(work) -> None:
    """Run `work` in a forked child; it must return, without an error."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with watched():
                work()
            code = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)
    assert exit_code(pid, LIMIT + 20) == 0


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no os.fork")
# Python 3.12 and later warn about every fork of a process with threads, BLAS threads included.
quiet_fork = pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")


@needs_fork
@quiet_fork
def test_a_forked_child_replays_and_traces():
    model = traced()
    want, wider = answer(Pure(), X), np.concatenate([X, X])

    def child():
        before = model.schedule_manager.statistics.traces
        assert is_near(answer(model, X), want)
        assert model.schedule_manager.statistics.traces == before
        assert is_near(answer(model, wider), answer(Pure(), wider))
        assert model.schedule_manager.statistics.traces == before + 1

    in_fork(child)
    assert is_near(answer(model, X), want)
    assert model.schedule_manager.statistics.replays == 2  # the child counted for itself


@needs_fork
@quiet_fork
def test_forked_while_another_thread_calls():
    """No lock of the chain stays taken in the child; if none was taken, it is one fork more."""
    model = traced()
    want = answer(Pure(), X)
    done = threading.Event()

    def calls():
        k = 0
        while not done.is_set():
            k += 1
            answer(model, X[: 1 + k % 4])

    with switch_interval(1e-6):
        thread = start(calls)
        try:
            for _ in range(8):
                in_fork(lambda: is_near(answer(model, X), want) or os._exit(2))
        finally:
            done.set()
            join(thread)


def child_of(start, data):
    """In another process: an unpickled chain starts empty, then is static like any other."""
    with watched():
        model = pickle.loads(data)
        manager = getattr(model, "schedule_manager", None)
        assert manager is None or (not manager.schedules and manager.statistics.calls == 0)
        results = [answer(model, X) for _ in range(3)]
        statistics = model.schedule_manager.statistics
        assert (statistics.traces, statistics.replays) == (1, 2)
        assert all(is_near(r, results[0]) for r in results)
        return results[-1]


@quiet_fork
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_traced_chain_sent_to_another_process(start):
    if start not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this platform has no start method {start}")
    model = traced()
    with multiprocessing.get_context(start).Pool(1) as pool:
        got = pool.apply_async(child_of, (start, pickle.dumps(model))).get(LIMIT)
    assert is_near(got, answer(Pure(), X))
    assert model.schedule_manager.statistics.replays == 1


def test_the_collector_runs_at_every_allocation():
    model, plain = static(Net), Net()
    thresholds = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for k in range(8):
            data = batch(np.random.RandomState(k), 3 + k % 2)
            for m, results in ((model, got := []), (plain, want := [])):
                np.random.seed(k)
                m.cleargrads()
                loss = m(*data)
                loss.backward()
                results += [loss.array, m.kept.array, *[p.grad for p in m.params()]]
            assert is_near(got, want)
    finally:
        gc.set_threshold(*thresholds)
    assert model.schedule_manager.statistics.replays >= 4


def test_a_collection_and_the_end_of_the_chain_inside_a_replay():
    """The last reference to the chain goes while one of its Python ops runs."""
    holder, seen = [], []

    class Ending(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l = L.Linear(8, 3)

        @sdbr.static_code
        def end(self, inputs):
            if len(seen) == 3:
                holder.clear()
            gc.collect()
            seen.append(inputs[0].sum())

        @sdbr.static_graph
        def forward(self, x):
            h = F.tanh(self.l(x))
            self.end(inputs=[h.array])
            return h * 2

    model = Ending()
    want = define_by_run(model, X).array
    seen.clear()
    holder.append(model)
    gone = weakref.ref(model)
    del model
    for _ in range(4):
        y = holder[0](X)
        assert is_near([y.array], [want])
    assert not holder and len(seen) == 4
    F.sum(y).backward()  # the graph holds what it needs
    del y
    gc.collect()
    assert gone() is None


def test_results_outlive_everything():
    model = traced(3)
    y = model(X)
    want = y.array.copy()
    gone = [weakref.ref(model), weakref.ref(model.schedule_manager)]
    del model
    gc.collect()
    F.sum(y).backward()
    assert np.array_equal(y.array, want)
    del y
    gc.collect()
    assert [g() for g in gone] == [None, None]
