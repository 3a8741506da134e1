"""Row 19: threads calling one chain get different schedules; no deadlock, no shared scratch.

When threads meet is chance. What is asserted holds however they are switched; where they never
meet, a test shows that one thread can go on with what others have left.
"""

from __future__ import annotations

import collections
import gc
import itertools
import threading
import time
import weakref
from types import SimpleNamespace

import sdbr
from sdbr.audit.roots import Roots
from sdbr.audit.snapshot import Snapshot
from sdbr.functions.registry import is_transparent
from sdbr.schedule.back_off import BACKING_OFF, FULL, FULL_AND_NEW, WAITING
from sdbr.trace.code.referrers import referrers
from sdbr.trace.effects import escapes
from sdbr.trace.effects.escapes import References
from sdbr.trace.recorder import Recorder
from sdbr.trace.watch.fingerprints import deep, elements_of

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.threads import attempts, gets_in, join, start, switch_interval, wait

from .networks import Net, Pure, answer, batch, define_by_run, is_near, static
from .together import together, watched

THREADS = pytest.mark.parametrize("n_threads", [2, 8])
BACKENDS = pytest.mark.parametrize("backend", ["cython", "numpy"])


def inputs(shapes=(2, 5, 33)):
    """Per batch size three arrays, with the right answers."""
    plain = Pure()
    rng = np.random.RandomState(0)
    xs = [rng.randn(n, 8).astype("f") for n in shapes for _ in range(3)]
    return [(x, answer(plain, x)) for x in xs]


@THREADS
@BACKENDS
def test_forward_and_backward_of_one_chain(n_threads, backend):
    cases = inputs()
    model = static(Pure, backend=backend)
    for x, want in cases:
        assert is_near(answer(model, x), want)

    def work(i):
        order = np.random.RandomState(i).randint(0, len(cases), 60)
        return all(is_near(answer(model, cases[k][0]), cases[k][1]) for k in order)

    assert together(n_threads, work) == [True] * n_threads
    statistics = model.schedule_manager.statistics
    assert statistics.traces == 3
    assert statistics.replays == statistics.calls - 3


@THREADS
def test_forward_without_a_graph(n_threads):
    cases = inputs()
    model = static(Pure)

    def work(i):
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            order = np.random.RandomState(i).randint(0, len(cases), 100)
            return all(is_near([model(cases[k][0]).array], cases[k][1][:1]) for k in order)

    assert together(n_threads, work) == [True] * n_threads
    assert model.schedule_manager.statistics.define_by_run_calls == 0


class Watched(Pure):
    """What it keeps and looks up is written by another thread, too."""

    def __init__(self):
        super().__init__()
        self.table = {"factor": 2}
        self.loss = None

    def forward(self, x):
        self.loss = F.sum(x)
        return super().forward(x) * float(self.table["factor"])


@pytest.mark.filterwarnings("ignore:.*the call is not static")
@pytest.mark.parametrize("audit", ["off", "auto"])
def test_traced_while_another_thread_adds_and_takes_attributes_and_items(audit):
    """Nothing that a trace or an audit looks at keeps still; the numbers are right all the same."""
    rng = np.random.RandomState(0)
    plain = Watched()
    for n in range(20):
        model = sdbr.static_graph(Watched())
        over = threading.Event()

        def spoil(model=model, over=over):
            for i in itertools.cycle(range(14)):
                if over.is_set():
                    return
                setattr(model, f"extra{i % 7}", i)
                model.table[f"extra{i % 7}"] = i
                if i % 2:
                    model.__dict__.pop(f"extra{(i + 3) % 7}", None)
                    model.table.pop(f"extra{(i + 3) % 7}", None)

        with (
            watched(),
            switch_interval(1e-6),
            chainer.using_config("sdbr_audit", audit),
        ):
            other = start(spoil)
            try:
                for _ in range(4):
                    x = rng.randn(2 + n % 3, 8).astype("f")
                    assert is_near(answer(model, x), answer(plain, x))
            finally:
                over.set()
                join(other)


class Restless(str):
    """A key that another thread seems to follow: whenever it is looked up, entries come and go."""

    into = None

    def __hash__(self):
        if self.into is not None and self.into.pop("extra", None) is None:
            self.into["extra"] = 1
        return super().__hash__()


def test_noted_while_another_thread_adds_and_takes_attributes():
    """What an audit compares and puts back changes between any two of its looks."""
    model = Watched()
    key = Restless("restless")
    model.__dict__[key] = 1
    before = Snapshot(Roots([model], ()))
    model.new = 2
    key.into = model.__dict__
    before.put_back(before.changes())
    before.put_all_back()
    key.into = None
    model.__dict__.pop("extra", None)
    assert model.__dict__ == before.entries[0]


class Bag(set):
    """One whose elements are taken in two steps: a user's class may have others for its own."""


@pytest.mark.parametrize("make", [dict, SimpleNamespace, list, collections.deque, set, Bag])
def test_compared_while_another_thread_adds_and_takes_items(make):
    """A look at what another thread writes never raises."""
    thing = make()
    fields = thing.__dict__ if make is SimpleNamespace else thing
    over, rounds = threading.Event(), itertools.count()

    def spoil():
        for i in itertools.cycle(range(40)):
            if over.is_set():
                return
            so_far[0] = next(rounds)
            if isinstance(fields, dict):
                fields[f"extra{i % 7}"] = [i]
                fields.pop(f"extra{(i + 3) % 7}", None)
            elif isinstance(fields, set):
                fields.add(i)
                fields.discard((i + 20) % 40)
            else:
                fields.append([i])
                if len(fields) > 20:
                    del fields[0]

    so_far = [0]
    with watched(), switch_interval(1e-6):
        other = start(spoil)
        try:
            for k in attempts("400 looks, while as many items came and went"):
                if min(k, so_far[0]) >= 400:
                    break
                assert deep(thing) is not None
                for _ in range(50):  # where the two meet once in some thousand times
                    elements_of(fields)
        finally:
            over.set()
            join(other)


@pytest.mark.filterwarnings("ignore:.*five of the last eight")
@THREADS
def test_traced_at_the_same_time(n_threads):
    """The first calls of one key, and of different keys, in all threads at once."""
    cases = inputs((1, 2, 3, 4))
    for attempt in range(3):
        model = static(Pure)

        def work(i, model=model, attempt=attempt):
            order = [(i // 2 + attempt + k) % len(cases) for k in range(len(cases))]
            return all(is_near(answer(model, cases[k][0]), cases[k][1]) for k in order)

        assert together(n_threads, work) == [True] * n_threads
        assert model.schedule_manager.statistics.define_by_run_calls == 0


@THREADS
def test_evicted_at_the_same_time(n_threads):
    cases = inputs((1, 2, 3, 4, 5, 6))
    model = static(Pure, max_schedules=2)

    def work(i):
        order = np.random.RandomState(i).randint(0, len(cases), 25)
        return all(is_near(answer(model, cases[k][0]), cases[k][1]) for k in order)

    with pytest.warns(sdbr.SdbrWarning, match="max_schedules=2"):
        assert together(n_threads, work) == [True] * n_threads
    manager = model.schedule_manager
    assert sum(map(len, manager.schedules.values())) <= 2
    served = manager.statistics
    assert served.traces + served.replays + served.define_by_run_calls == served.calls
    assert set(manager.define_by_run_reasons) <= {BACKING_OFF, FULL, FULL_AND_NEW, WAITING}


def test_cleared_at_the_same_time():
    cases = inputs()
    model = static(Pure)

    def work(i):
        if i == 0:
            for _ in range(10):
                model.schedule_manager.clear()
                model.schedule_manager.end_forward()
            return True
        return all(is_near([model(x).array], want[:1]) for x, want in cases * 4)

    assert together(4, work) == [True] * 4


@THREADS
def test_configuration_of_each_thread(n_threads):
    model = static(lambda: chainer.Sequential(L.Linear(4, 4), lambda x: F.dropout(x, 0.5)))
    x = np.ones((3, 4), "f")
    W, b = model[0].W.array, model[0].b.array
    h = x @ W.T + b

    def work(i):
        train, backend = bool(i % 2), ("cython", "numpy")[i // 2 % 2]
        for _ in range(40):
            with (
                chainer.using_config("train", train),
                chainer.using_config("sdbr_backend", backend),
            ):
                y = model(x).array
            fits = (np.abs(y) < 1e-6) | (np.abs(y - 2 * h) < 1e-5) if train else abs(y - h) < 1e-5
            if not fits.all():
                return f"thread {i}: {y}"
        return None

    assert together(n_threads, work) == [None] * n_threads


def test_holders_are_looked_for_by_one_thread_at_a_time(monkeypatch):
    """On the way it holds what calls of other threads have made: it would be kept by somebody."""
    x = np.ones((3, 4), "f")  # of all threads: who holds it is looked for
    looking, most = [], []

    def slow(things):
        looking.append(None)
        most.append(len(looking))
        time.sleep(1e-3)
        looking.pop()
        return referrers(things)

    monkeypatch.setattr(escapes, "referrers", slow)

    def work(i):
        model = sdbr.static_graph(L.Linear(4, 4), on_dynamic="raise")
        return [model(x).array.shape for _ in range(2)]

    assert together(4, work) == [[(3, 4)] * 2] * 4
    assert set(most) == {1}


@THREADS
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_whole_steps_of_models_of_their_own(n_threads, optimizer):
    """Kernels, sums and products share no memory between threads."""

    def train(i, make_static):
        model = chainer.Sequential(L.Linear(8, 70), F.tanh, L.Linear(70, 3))
        for p, seed in zip(model.params(), range(9), strict=False):
            p.array[...] = np.random.RandomState(seed).randn(*p.shape) * 0.1
        model = L.Classifier(model)
        opt = getattr(chainer.optimizers, optimizer)()
        if make_static:
            model, opt = sdbr.static_graph(model, on_dynamic="raise"), sdbr.static_optimizer(opt)
        opt.setup(model)
        rng = np.random.RandomState(i)
        for _ in range(25):
            opt.update(model, *batch(rng, 21))
        if make_static:
            assert model.schedule_manager.statistics.steps == 24
        return [p.array for _, p in sorted(model.namedparams())]

    want = [train(i, False) for i in range(n_threads)]
    got = together(n_threads, lambda i: train(i, True))
    assert all(is_near(g, w) for g, w in zip(got, want, strict=True))


def test_one_model_trained_while_others_infer():
    """Answers are those of the parameters before or after some update, never of half of one."""
    rng = np.random.RandomState(0)
    x = rng.randn(4, 8).astype("f")
    model = static(Pure)
    y, done = model(x), threading.Event()
    with chainer.no_backprop_mode():
        seen = [model(x).array]

    def work(i):
        if i == 0:
            try:
                for k in range(30):
                    for p in model.params():
                        p.array = p.array * (1 + 0.01 * k)
            finally:
                done.set()
            return None
        results = []
        with chainer.no_backprop_mode():
            while not done.is_set():
                results.append(model(x).array)
        return results

    for results in together(3, work)[1:]:
        assert all(np.isfinite(r).all() and r.shape == y.shape for r in results)
    assert is_near([model(x).array], [define_by_run(model, x).array])
    assert np.array_equal(seen[0], y.array)  # what was handed out stays


def test_one_optimizer_in_two_threads_does_no_harm():
    """Updates that race are as undefined as in Chainer; the process and the model survive them."""
    model = static(
        lambda: L.Classifier(chainer.Sequential(L.Linear(8, 20), F.tanh, L.Linear(20, 3)))
    )
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.01)).setup(model)
    data = batch(np.random.RandomState(0), 6)
    for _ in range(3):
        optimizer.update(model, *data)

    def work(i):
        for _ in range(50):
            optimizer.update(model, *data)

    together(2, work)
    assert all(np.isfinite(p.array).all() for p in model.params())
    optimizer.update(model, *data)
    assert is_near([model(*data).array], [define_by_run(model, *data).array])


def test_tracing_holds_no_lock():
    """A call that waits, while it is traced, for calls of another thread."""
    started, finished = threading.Event(), threading.Event()
    waits = [True]
    ended: list = []

    @sdbr.static_graph
    def f(x):
        if x.shape[0] == 1 and waits:
            waits.clear()
            started.set()
            wait(finished, "calls of another thread while one is traced")
            ended.append(True)
        return F.tanh(x) * 2

    def work(i):
        if i == 0:
            return f(np.ones((1, 2), "f")).array
        wait(started, "the trace")
        results = [f(np.ones((2, 2), "f")).array for _ in range(4)]
        finished.set()
        return results[-1]

    one, two = together(2, work)
    assert ended == [True]
    assert is_near([one, two], [np.full((1, 2), 2 * np.tanh(1)), np.full((2, 2), 2 * np.tanh(1))])


def test_a_replay_releases_the_interpreter_lock():
    """Another thread gets in during a replay, and only then: the interpreter never switches."""
    model = static(lambda: chainer.Sequential(*[F.tanh] * 12))
    x = np.zeros((400, 1000), "f")
    with watched(), chainer.no_backprop_mode():
        for _ in range(3):
            model(x)
        before = model.schedule_manager.statistics.replays
        assert gets_in(lambda: model(x))
        assert model.schedule_manager.statistics.replays > before
        assert not gets_in(lambda: sum(range(1000)), rounds=200)


def test_chains_go_while_other_threads_call_theirs():
    """Nothing of one chain is kept alive, or freed too early, by the calls of another."""

    def work(i):
        gone = []
        for k in range(6):
            model = static(lambda: Net(i))
            for n in (2, 3, 2):
                model.cleargrads()
                model(*batch(np.random.RandomState(k), n)).backward()
            gone += [weakref.ref(model), weakref.ref(model.schedule_manager.static_schedule)]
            del model
        return gone

    references = [r for found in together(4, work) for r in found]
    gc.collect()
    assert [r() for r in references if r() is not None] == []


KEPT: list = []


@pytest.mark.usefixtures("collected_modules")  # `KEPT` lies in one
@pytest.mark.parametrize("keeps", [False, True])
def test_who_holds_an_argument_while_it_is_traced(keeps):
    """What code of another thread passes on is nobody's; a list that stays is a place."""
    x = np.ones((2, 8), "f")
    references = References()
    asked, holds, over = threading.Event(), threading.Event(), threading.Event()

    def hold():
        wait(asked, "references to be counted")
        if keeps:
            KEPT.append(x)
        for thing, _ in zip([x, x], [(x, [x]), 1], strict=True):
            holds.set()
            wait(over, "the end of the trace")
            assert thing is x

    other = start(hold)
    try:
        with watched():
            references.count([x])
            asked.set()
            wait(holds, "the thread that holds it")
            found = references.unknown([], [], {}, Recorder(is_transparent))
    finally:
        asked.set()
        over.set()
        join(other)
        KEPT.clear()
    assert [what for what, _ in found] == (["a list"] if keeps else [])
