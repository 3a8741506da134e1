"""The executor changes at run time; the trace stays, and so do programs that fit both."""

import copy
import pickle

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np

from tests.harness.comparison import BACKENDS, assert_near
from tests.harness.models import MLP
from tests.harness.twins import X, mlp, statistics_of
from tests.tolerances import GRADIENTS, RESULTS, ROUNDINGS


def test_the_same_program_on_each_backend_without_a_new_trace():
    chain = chainer.Sequential(L.Linear(5, 7), F.tanh, L.Linear(7, 3), lambda y: F.sum(y * y))
    static = sdbr.static_graph(chain.copy("copy"))
    x = np.random.RandomState(0).randn(4, 5).astype("f")
    programs = []
    for backend in ("cython", "numpy", "cython", "numpy", "auto"):
        with chainer.using_config("sdbr_backend", backend):
            for c in (chain, static):
                c.cleargrads()
                loss = c(x)
                loss.backward()
            for p, q in zip(chain.params(), static.params(), strict=True):
                np.testing.assert_allclose(p.grad, q.grad, rtol=GRADIENTS, atol=ROUNDINGS)
            schedule = static.schedule_manager.static_schedule
            programs.append((schedule.programs["forward"], *schedule.programs["backward"]))
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays, statistics.python_ops) == (1, 4, 0)
    # The first call traced; the pattern that came up is built once, for both.
    assert all(a is b for p in programs[1:] for a, b in zip(p, programs[1], strict=True))
    backends = {s.backend for c in static.schedule_manager.schedules.values() for s in c}
    assert backends == {"cython", "numpy"}


def test_a_swap_in_whole_steps():
    model = sdbr.static_graph(L.Classifier(L.Linear(4, 3)))
    plain = L.Classifier(model.predictor.copy("copy"))
    optimizers = [
        sdbr.static_optimizer(chainer.optimizers.Adam()).setup(model),
        chainer.optimizers.Adam().setup(plain),
    ]
    rng = np.random.RandomState(0)
    for i in range(8):
        x, t = rng.randn(6, 4).astype("f"), rng.randint(0, 3, 6).astype("i")
        with chainer.using_config("sdbr_backend", ("cython", "numpy")[i % 2]):
            optimizers[0].update(model, x, t)
        optimizers[1].update(plain, x, t)
        np.testing.assert_allclose(model.loss.array, plain.loss.array, rtol=RESULTS)
    statistics = model.schedule_manager.statistics
    assert (statistics.traces, statistics.steps) == (1, 7)


def test_static_schedule_is_the_one_used_last():
    static = sdbr.static_graph(L.Linear(5, 3))
    small, large = np.zeros((2, 5), "f"), np.zeros((9, 5), "f")
    with chainer.no_backprop_mode():
        for x in (small, large, small, small, large, small):
            static(x)
            assert static.static_schedule is static.schedule_manager.static_schedule
            (value,) = [v for v in static.static_schedule.trace.values if v.kind == "argument"]
            assert value.shape == x.shape
    for other in (copy.copy(static), copy.deepcopy(static), pickle.loads(pickle.dumps(static))):
        assert getattr(other, "static_schedule", None) in (None, static.static_schedule)
        other(large)
        assert other.static_schedule is not static.static_schedule
    static.schedule_manager.clear()
    assert static.static_schedule is None


def test_backend_is_chosen_per_call():
    static = sdbr.static_graph(mlp())
    want = MLP.forward(static, X).array
    for _ in range(2):
        for backend in ("numpy", "cython", "auto", "off"):
            with chainer.using_config("sdbr_backend", backend):
                assert_near(static(X).array, want, RESULTS, backend)
    statistics = statistics_of(static)
    # 'auto' is 'cython', which runs the programs of 'numpy'; 'off' runs define-by-run.
    assert (statistics.traces, statistics.replays, statistics.define_by_run_calls) == (1, 5, 2)
    argument = sdbr.static_graph(mlp(), backend="numpy")
    argument(X)
    with chainer.using_config("sdbr_backend", "off"):
        argument(X)
    assert statistics_of(argument).replays == 1
    assert argument.schedule_manager.static_schedule.backend == "numpy"


def test_one_program_on_both_backends():
    static = sdbr.static_graph(L.Classifier(mlp()))
    t = np.array([0, 1, 2, 0, 1], "i")
    texts = {}
    for backend in BACKENDS:
        with chainer.using_config("sdbr_backend", backend):
            for _ in range(2):
                static(X, t).backward()
            schedule = static.schedule_manager.static_schedule
            texts[backend] = [
                schedule.programs["forward"].disassemble(),
                *[p.disassemble() for p in schedule.programs["backward"]],
            ]
    assert texts["numpy"] == texts["cython"]
