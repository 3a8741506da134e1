"""Row 19: threads on one chain, and on chains of their own."""

from __future__ import annotations

import gc
import sys
import threading
import types

import sdbr
from sdbr.trace.effects import escapes

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_near, copy_of
from tests.harness.models import MLP, Net, floats, labels
from tests.harness.threads import attempts, in_threads, join, start, switch_interval, wait
from tests.harness.twins import POINTS
from tests.tolerances import GRADIENTS, LONG, RESULTS, SUMS


@pytest.mark.parametrize("inference", [False, True])
def test_threads_on_one_chain(inference):
    np.random.seed(0)
    model = sdbr.static_graph(MLP(64, 128, 8), on_dynamic="raise")
    plain = MLP.forward
    rng = np.random.RandomState(0)
    xs = [floats(32, 64)(rng) for _ in range(8)]
    want = []
    for x in xs:
        v = chainer.Variable(x)
        y = plain(model, v)
        F.sum(y * y).backward()
        want.append((copy_of(y.array), copy_of(v.grad)))
    for _ in range(2):
        model(chainer.Variable(xs[0]))
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            model(chainer.Variable(xs[0]))
    before = model.schedule_manager.statistics.replays

    def work(i):
        for _ in range(30):
            v = chainer.Variable(xs[i])
            if inference:
                with chainer.using_config("train", False), chainer.no_backprop_mode():
                    y = model(v)
                assert_near(y.array, want[i][0], RESULTS, "output")
            else:
                y = model(v)
                (g,) = chainer.grad([F.sum(y * y)], [v])
                assert_near(y.array, want[i][0], RESULTS, "output")
                assert_near(g.array, want[i][1], GRADIENTS, "gradient")

    in_threads(8, work)
    assert model.schedule_manager.statistics.replays == before + 8 * 30


def test_threads_with_chains_of_their_own():
    def train(static, seed):
        rng = np.random.RandomState(seed)
        links = [
            L.Linear(a, b, initialW=rng.randn(b, a).astype("f") * 0.3)
            for a, b in ((4, 16), (16, 3))
        ]
        model = Net(
            lambda self, x, t: F.softmax_cross_entropy(self.b(F.relu(self.a(x))), t),
            a=links[0], b=links[1],
        )  # fmt: skip
        optimizer = chainer.optimizers.Adam()
        if static:
            model, optimizer = sdbr.static_graph(model), sdbr.static_optimizer(optimizer)
        optimizer.setup(model)
        for _ in range(30):
            optimizer.update(model, floats(8, 4)(rng), labels(3, 8)(rng))
        return model

    want = [train(False, i) for i in range(8)]
    got = [None] * 8

    def work(i):
        got[i] = train(True, i)

    in_threads(8, work)
    for g, w in zip(got, want, strict=True):
        for (name, p), (_, q) in zip(g.namedparams(), w.namedparams(), strict=True):
            assert_near(p.array, q.array, LONG, name)
        assert g.schedule_manager.statistics.steps == 29


def work_on(model, number):
    """Calls and gradients through `model`, compared with NumPy."""
    weight, bias = model.W.array, model.b.array
    for i in range(12):
        x = np.random.RandomState(100 * number + i).randn(4 + (number + i) % 2, 4).astype("f")
        with chainer.using_config("enable_backprop", number % 2 == 0):
            v = chainer.Variable(x)
            y = model(v)
            where = f"of thread {number}, call {i}"
            right = np.allclose(y.array, np.tanh(x.dot(weight.T) + bias), SUMS, RESULTS)
            assert right, f"output {where}"
            if number % 2:
                continue
            (gx,) = chainer.grad([F.sum(y)], [v])
            right = np.allclose(gx.array, (1 - y.array**2).dot(weight), SUMS, SUMS)
            assert right, f"gradient {where}"


def test_threads_do_not_share_activations_or_builds():
    """While they trace, and once all is traced. Where they never meet, each is right by itself."""
    # Switching often makes threads meet between any two steps of Python.
    with switch_interval(1e-5):
        for _ in range(10):
            model = sdbr.static_graph(Squashed(4, 3))
            statistics = model.schedule_manager.statistics
            in_threads(6, lambda i, model=model: work_on(model, i))
            for _ in attempts("all calls of two threads are replays"):
                before = statistics.replays
                for i in range(2):
                    work_on(model, i)
                if statistics.replays == before + 24:
                    break
            in_threads(6, lambda i, model=model: work_on(model, i))
            assert statistics.replays == before + 24 + 72


class Squashed(L.Linear):
    def forward(self, x):
        return F.tanh(super().forward(x))


def test_links_freed_in_another_thread():
    models = [sdbr.static_graph(MLP(4, 8, 3)) for _ in range(20)]
    want = [copy_of(m(POINTS).array) for m in models]
    results: list = []
    ready = [threading.Event() for _ in models]

    def work():
        for i in range(len(models)):
            model = models[i]
            results.append([copy_of(model(POINTS).array) for _ in range(3)])
            del model
            ready[i].set()

    def free():
        for i in range(len(models)):
            wait(ready[i], f"calls of link {i}")
            models[i] = None
            gc.collect()

    in_threads(2, lambda i: (work, free)[i]())
    for got, expected in zip(results, want, strict=True):
        for y in got:
            assert_near(y, expected, RESULTS, "output")


def test_who_looks_at_all_stacks_for_a_moment_keeps_nothing(monkeypatch):
    """Profilers do: a frame that somebody holds keeps what was in it when its function is over."""
    asked, taken, looked = threading.Event(), threading.Event(), threading.Event()

    def looks():
        wait(asked, "the call")
        frames = sys._current_frames()
        taken.set()
        wait(looked, "a look at who holds results")
        frames.clear()
        gone.set()

    gone = threading.Event()

    @sdbr.static_code
    def here():
        asked.set()
        wait(taken, "stacks")

    def inner(x):
        y = F.tanh(x)
        both = [y, x]
        here()
        return both[0]

    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        looked.set()
        wait(gone, "stacks that are let go")

    monkeypatch.setattr(escapes, "time", types.SimpleNamespace(sleep=pause))
    static = sdbr.static_graph(lambda x: inner(x) * 2, on_dynamic="raise")
    other = start(looks)
    xs = [np.full((2, 3), i, "f") for i in range(3)]
    for x in xs:
        assert_near(static(chainer.Variable(x)).array, np.tanh(x) * 2, RESULTS, "output")
    join(other)
    assert static.schedule_manager.statistics.replays == 2
    assert len(pauses) == 1  # it was there, and then not any more
