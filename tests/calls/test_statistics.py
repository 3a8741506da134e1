"""The counters are right on every path."""

from __future__ import annotations

import warnings

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer import optimizers

from tests.harness.comparison import BACKENDS
from tests.harness.models import MLP, Net
from tests.harness.nodes import Moody
from tests.harness.twins import X

T = np.array([0, 1, 2, 0, 1], "i")


def counts(model, **expected):
    found = model.schedule_manager.statistics.to_dict()
    expected = dict.fromkeys(found, 0) | expected
    assert found == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_calls_and_backwards(backend):
    model = sdbr.static_graph(L.Classifier(MLP(4, 8, 3)), backend=backend)
    for _ in range(5):
        model.cleargrads()
        model(X, T).backward()
    counts(model, calls=5, traces=1, replays=4, native_calls=8, compiled_backwards=4)
    model(X, T)
    counts(model, calls=6, traces=1, replays=5, native_calls=9, compiled_backwards=4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_calls_without_graph(backend):
    model = sdbr.static_graph(MLP(4, 8, 3), backend=backend)
    with chainer.no_backprop_mode():
        for _ in range(5):
            model(X)
    counts(model, calls=5, traces=1, replays=4, native_calls=4)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("whole", [True, False])
def test_updates(backend, whole):
    model = sdbr.static_graph(L.Classifier(MLP(4, 8, 3)), backend=backend)
    optimizer = optimizers.Adam()
    if whole:
        optimizer = sdbr.static_optimizer(optimizer)
    optimizer.setup(model)
    with chainer.using_config("sdbr_backend", backend):
        for _ in range(5):
            optimizer.update(model, X, T)
    native, compiled = (4, 0) if whole else (8, 4)
    counts(
        model, calls=5, traces=1, replays=4, steps=4 * whole, native_calls=native,
        compiled_backwards=compiled,
    )  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
def test_python_ops(backend):
    model = sdbr.static_graph(
        Net(lambda self, x: F.sum(Moody().apply((self.l(x),))[0]), l=L.Linear(4, 6)),
        backend=backend,
    )
    nodes = None
    for _ in range(3):
        model(X).backward()
        programs = model.schedule_manager.static_schedule.programs
        nodes = programs["forward"].python_ops + programs["backward"][0].python_ops
    assert nodes >= 2
    counts(model, calls=3, traces=1, replays=2, native_calls=4, python_ops=2 * nodes)


def test_define_by_run():
    model = sdbr.static_graph(lambda x: F.relu(x) + np.array([1, 2, 3, 4], "f"))
    for _ in range(4):
        model(X)
    counts(model, calls=4, traces=1, replays=3, native_calls=3)
    with chainer.using_config("use_static_graph", False):
        model(X)
    counts(model, calls=5, traces=1, replays=3, native_calls=3, define_by_run_calls=1)


def test_failed_calls_count_as_calls_only():
    model = sdbr.static_graph(lambda x, t: F.softmax_cross_entropy(x, t))
    for _ in range(3):
        model(X, T)
    for _ in range(2):
        with pytest.raises(IndexError):
            model(X, T + 9)
    found = model.schedule_manager.statistics
    assert found.replays == 2 and found.native_calls == 2


def test_replays_of_the_compiled_path_count_as_calls():
    """One new shape in ten calls is no reason for a warning, however the others were served."""
    static = sdbr.static_graph(lambda x: F.relu(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(1, 10):
            for _ in range(10):
                static(np.ones(n, "f"))
    found = static.schedule_manager.statistics
    assert (found.traces, found.builds) == (3, 6)  # one row may broadcast
