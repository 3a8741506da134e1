"""Ops that are cut into parts for several threads."""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
import sys

import sdbr
from sdbr.base.threads import num_threads

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.models import Net
from tests.harness.threads import exit_code


def network(n_units=256):
    return Net(
        lambda self, x, t: F.softmax_cross_entropy(
            self.l3(F.softmax(F.tanh(self.l2(F.exp(F.relu(self.l1(x) * 0.1))))) + 1), t
        ),
        l1=L.Linear(300, n_units),
        l2=L.Linear(n_units, n_units),
        l3=L.Linear(n_units, 10),
    )


def seeded():
    np.random.seed(1)
    return network()


def train(threads, steps=4, batch=512, model=None):
    """Parameters after some steps, how many ops were cut, and Python ops."""
    rng = np.random.RandomState(0)
    with chainer.using_config("sdbr_num_threads", threads):
        model = sdbr.static_graph(seeded() if model is None else model)
        optimizer = sdbr.static_optimizer(chainer.optimizers.Adam())
        optimizer.setup(model)
        for _ in range(steps):
            x, t = rng.randn(batch, 300).astype("f"), rng.randint(0, 10, batch).astype("i")
            optimizer.update(model, x, t)
        statistics = model.schedule_manager.statistics
        assert statistics.steps == steps - 1
        assert statistics.python_ops == 0
        step = model.schedule_manager.static_schedule.programs["step"]
    return [p.array for p in model.params()], step.prepared.cut_ops


def test_results_do_not_depend_on_the_number_of_threads():
    want, cut = train(1)
    assert cut == 0
    for threads in (2, 3, 8):
        got, cut = train(threads)
        assert cut > 10
        for x, y in zip(got, want, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("shape", [(300, 700), (5, 400, 9, 17)])
@pytest.mark.parametrize("reduce", ["mean", "no"])
def test_cross_entropy_does_not_depend_on_the_number_of_threads(shape, reduce):
    rng = np.random.default_rng(0)
    x, t = rng.standard_normal(shape), rng.integers(0, shape[1], (shape[0], *shape[2:]))
    found = []
    for threads in (1, 3):
        with chainer.using_config("sdbr_num_threads", threads):
            loss = sdbr.static_graph(lambda x, t: F.softmax_cross_entropy(x, t, reduce=reduce))
            for _ in range(2):
                v = chainer.Variable(x.astype("f"))
                F.sum(loss(v, t.astype("i"))).backward()
            found.append((loss(v, t.astype("i")).array, v.grad))
        assert loss.schedule_manager.statistics.replays == 2
    for one, three in zip(*found, strict=True):
        np.testing.assert_array_equal(one, three)


def convolve(threads):
    """Parameters after some steps through convolutions of every kind, and bytes of the arena."""
    np.random.seed(1)
    model = Net(
        lambda self, x, t: F.softmax_cross_entropy(
            self.out(self.last(F.relu(self.up(self.each(self.few(F.relu(self.first(x)))))))), t
        ),
        first=L.Convolution2D(3, 24, 3, pad=1),
        few=L.Convolution2D(24, 40, 5),  # its gradient is made of columns
        each=L.Convolution2D(40, 40, 3, pad=1, groups=40),
        up=L.Deconvolution2D(40, 16, 4, stride=2, pad=1),
        last=L.Convolution2D(16, 24, 1, stride=2),
        out=L.Linear(24 * 17 * 17, 10),
    )
    rng = np.random.RandomState(0)
    with chainer.using_config("sdbr_num_threads", threads):
        static = sdbr.static_graph(model)
        optimizer = sdbr.static_optimizer(chainer.optimizers.SGD())
        optimizer.setup(static)
        for _ in range(3):
            x, t = rng.randn(5, 3, 21, 21).astype("f"), rng.randint(0, 10, 5).astype("i")
            optimizer.update(static, x, t)
        assert static.schedule_manager.statistics.python_ops == 0
        step = static.schedule_manager.static_schedule.programs["step"]
    return [p.array for p in static.params()], step.arena_bytes


def test_convolutions_do_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr("sdbr.backends.cpu.prepare.blocking.LEAST_WORK", 1)
    want, memory = convolve(1)
    for threads in (2, 3, 8):
        got, more = convolve(threads)
        assert more > memory  # each thread works in memory of its own
        for x, y in zip(got, want, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    ("c", "o", "kernel", "stride", "n", "size"),
    [
        (32, 16, 5, 1, 16, 14),
        (64, 128, 1, 1, 9, 28),
        (64, 64, 1, 2, 5, 27),
        (16, 16, 3, 1, 1, 100),
        (64, 33, 3, 2, 4, 16),
    ],
)
def test_gradients_of_convolutions_do_not_depend_on_the_number_of_threads(
    monkeypatch, c, o, kernel, stride, n, size
):
    monkeypatch.setattr("sdbr.backends.cpu.prepare.blocking.LEAST_WORK", 1)
    rng = np.random.RandomState(0)
    link = L.Convolution2D(c, o, kernel, stride, kernel // 2)
    x = rng.randn(n, c, size, size).astype("f")
    gy = rng.randn(*link(x).shape).astype("f")
    found = []
    for threads in (1, 2, 3, 7):
        # oneDNN forms its sums in another order on another number of threads.
        with (
            chainer.using_config("sdbr_num_threads", threads),
            chainer.using_config("sdbr_onednn", "off"),
        ):
            static = sdbr.static_graph(link.copy("copy"))
            for _ in range(2):
                v = chainer.Variable(x)
                y = static(v)
                y.grad = gy
                static.cleargrads()
                y.backward()
        statistics = static.schedule_manager.statistics
        assert (statistics.replays, statistics.python_ops) == (1, 0)
        found.append((y.array, v.grad, static.W.grad.copy(), static.b.grad.copy()))
    for got in found[1:]:
        for a, b in zip(got, found[0], strict=True):
            np.testing.assert_array_equal(a, b)


def pool(threads):
    """Gradients through pooling, and how many ops of the backward were cut."""
    with chainer.using_config("sdbr_num_threads", threads):
        static = sdbr.static_graph(
            lambda x: F.max_pooling_2d(x, 2) + F.average_pooling_2d(F.max_pooling_2d(x, 3, 1, 1), 2)
        )
        for i in range(3):
            x = chainer.Variable(np.random.RandomState(i).randn(70, 41, 16, 16).astype("f"))
            y = static(x)
            y.grad = y.array
            y.backward()
        statistics = static.schedule_manager.statistics
        assert (statistics.replays, statistics.python_ops) == (2, 0)
        (backward,) = static.schedule_manager.static_schedule.programs["backward"]
    return y.array, x.grad, backward.prepared.cut_ops


def test_pooling_does_not_depend_on_the_number_of_threads():
    *want, cut = pool(1)
    assert cut == 0
    *got, cut = pool(3)
    assert cut >= 3
    for x, y in zip(got, want, strict=True):
        np.testing.assert_array_equal(x, y)


def test_small_ops_are_not_cut():
    _, cut = train(2, batch=4, model=network(16))
    assert cut == 0


def test_programs_of_several_threads_share_the_workers():
    want, _ = train(1)
    models = [seeded() for _ in range(4)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda model: train(2, model=model)[0], models, timeout=300))
    for got in results:
        for x, y in zip(got, want, strict=True):
            np.testing.assert_array_equal(x, y)


def test_forked_child_starts_workers_of_its_own():
    want, cut = train(2)
    assert cut
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            got, _ = train(2)
            code = 0 if all(np.array_equal(x, y) for x, y in zip(got, want, strict=True)) else 2
        finally:
            os._exit(code)
    assert exit_code(pid) == 0


def test_default_is_that_of_blas():
    assert chainer.config.sdbr_num_threads is None
    assert num_threads() == 1  # the tests pin BLAS to one thread


@pytest.mark.parametrize("setting", [0, -1, 1.5, True, "many", 65])
def test_wrong_number_of_threads(setting):
    wrong = pytest.raises(sdbr.BackendError, match=r"sdbr_num_threads.*from 1 to 64, got")
    with wrong, chainer.using_config("sdbr_num_threads", setting):
        num_threads()
    assert num_threads() == 1


def test_number_of_threads_from_the_environment():
    code = "import sdbr; from sdbr.base.threads import num_threads; print(num_threads())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "SDBR_NUM_THREADS": "3"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout.strip() == "3"
