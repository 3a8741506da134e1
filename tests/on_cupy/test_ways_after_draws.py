"""Ways by values after draws: a run that turns back leaves CuPy's generators where they were."""

import gc
import os
from unittest import mock

import sdbr
from sdbr.devices import generators

import chainer
import chainer.functions as F
import chainer.links as L
import cupy
import numpy as np
import pytest
from chainer import optimizers
from cupy_backends.cuda.libs import curand

from tests.conftest import ON
from tests.harness.threads import join, start

from .programs import Way, assert_alike, normal, seen, state

CALLS = 14


@pytest.fixture
def nothing_kept():
    """What audits' own generators had put back goes with these."""
    gc.collect()
    assert not generators._KEPT.draws


def after_a_dropout(x):
    y = F.dropout(x, 0.4)
    return F.relu(y) if y.array.sum() > 0 else F.tanh(y) * 2


def dropout_on_each_way(x):
    y = F.dropout(x, 0.4)
    if y.array.sum() > 0:
        return F.dropout(F.relu(y), 0.2)
    return F.dropout(F.dropout(y, 0.1), 0.3)


def several_draws(x):
    y = F.dropout(x, 0.4) + cupy.random.normal(0, 1, x.shape, dtype="f")
    z = F.gaussian(y, F.tanh(x))
    k = cupy.random.randint(0, 5, x.shape[0])
    if z.array.mean() > 0:
        return z * k[:, None].astype("f"), k
    return F.dropout(z, 0.2), cupy.random.permutation(4)


def questions_in_a_row(x):
    found = []
    for i in range(4):
        x = F.dropout(x, 0.3) * 1.1
        if x.array.sum() < 0:
            found.append(i)
            x = x + cupy.random.uniform(-1, 1, x.shape, dtype="f")
    return x, found


def by_seeds_that_move_on(x):
    """What kernels of CuPy's own draw."""
    a = cupy.random.gamma(2.0, 1.0, x.shape, dtype="f")
    if (a * x.array).sum() > 0:
        return F.relu(x * a)
    return x * cupy.random.beta(2.0, 3.0, x.shape, dtype="f")


def of_both_generators(x):
    y = F.dropout(x, 0.4) + cupy.asarray(np.random.rand(*x.shape).astype("f"))
    return y * 2 if y.array.sum() > 6 else y + float(np.random.rand(1)[0])


def numbers_of_a_bernoulli(x):
    if cupy.random.rand() < 0.5:
        return F.relu(x)
    return F.tanh(F.dropout(x, 0.2))


PROGRAMS = [
    after_a_dropout, dropout_on_each_way, several_draws, questions_in_a_row,
    by_seeds_that_move_on, of_both_generators, numbers_of_a_bernoulli,
]  # fmt: skip


def called(function, way):
    np.random.seed(3)
    cupy.random.seed(3)
    call, found = way(lambda x: function(x)), []
    for k in range(CALLS):
        x = chainer.Variable(normal(4, 3, seed=k))
        result = call(x)
        y = result[0] if isinstance(result, tuple) else result
        F.sum(y).backward()
        found.append((seen(result), seen(x.grad), seen(cupy.random.rand(2)), np.random.rand()))
    return call, found


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_calls(function):
    _, want = called(function, Way(False))
    call, got = called(function, Way(True))
    assert_alike(got, want)
    statistics = call.schedule_manager.statistics
    assert statistics.define_by_run_calls == 0, statistics
    assert statistics.replays >= CALLS - 8, statistics
    assert len(call.schedule_manager.schedules[next(iter(call.schedule_manager.schedules))]) > 1


def test_runs_did_turn_back():
    """Else there was nothing to put back."""
    with mock.patch.object(generators._KEPT, "put_back", wraps=generators._KEPT.put_back) as put:
        called(after_a_dropout, Way(True))
    assert len([c for c in put.call_args_list if c.args[0]]) >= 3


def perceptron(self, x):
    h = F.dropout(F.tanh(self.layer(x)), 0.3)
    if h.array.sum() > 0:
        h = F.dropout(h, 0.2)
    return F.sum(self.out(h) ** 2)


@pytest.mark.parametrize("setting", ["define-by-run", "philox"])
def test_steps(setting):
    found, known = [], {}
    with chainer.using_config("sdbr_random", setting):
        for way in (Way(False), Way(True)):
            parts = {"layer": lambda: L.Linear(3, 4), "out": lambda: L.Linear(4, 2)}
            model = way.model(perceptron, **parts)
            optimizer = way.optimizer(optimizers.Adam(), model)
            for k in range(CALLS):
                optimizer.update(model, normal(5, 3, seed=k))
                found.append((state(model), seen(cupy.random.rand(2))))
                if way.is_static:
                    (traced,) = model.schedule_manager.schedules.values()
                    ways = {schedule.answers for schedule in traced}
                    known.setdefault(len(ways), model.schedule_manager.statistics.traces)
    statistics = model.schedule_manager.statistics
    # An audit's define-by-run draws for itself where kernels do: it may go another way than the
    # one that was asked for, and counts then.
    alone = statistics.define_by_run_calls
    if setting == "define-by-run" or os.environ["SDBR_AUDIT"] == "off":
        assert alone == 0 and statistics.steps == statistics.replays
    assert statistics.replays + alone + statistics.traces == statistics.calls == CALLS
    # Where kernels draw, the trace for a new way draws for itself and may go a known one: how many
    # it takes to see both is up to the draws. From then on all are replays.
    assert statistics.traces == known.get(2, statistics.traces)
    if setting == "define-by-run":
        assert statistics.traces <= 2
        assert_alike(found[CALLS:], found[:CALLS])


def test_an_error_leaves_what_was_drawn():
    found = []
    for way in (Way(False), Way(True)):

        @way
        def call(x, t):
            y = F.dropout(x, 0.4)
            z = y * 2 if y.array.sum() > 0 else y
            return F.softmax_cross_entropy(z, t)

        cupy.random.seed(3)
        for k in range(6):
            call(normal(4, 3, seed=k), cupy.zeros(4, "i"))
        with pytest.raises(IndexError):
            call(normal(4, 3, seed=0), cupy.full(4, 7, "i"))
            sdbr.synchronize() if way.is_static else _look(7)
        found.append(seen(cupy.random.rand(3)))
    assert_alike(*found)


def _look(label):
    """Chainer's own kernel does not check labels there."""
    raise IndexError(label)


@pytest.mark.skipif(ON == "gpu", reason="looks at the generator of the look-alike")
def test_seeds_and_others_are_not_given_what_was_put_back(nothing_kept):
    cupy.random.seed(4)
    want = [seen(cupy.random.rand(2, dtype="f")), seen(cupy.random.rand(3, dtype="f"))]
    cupy.random.seed(4)
    before = generators.Before(0)
    cupy.random.rand(2, dtype="f"), cupy.random.rand(3, dtype="f")
    before.put_back()
    before.put_back()  # once
    assert_alike(seen(cupy.random.rand(2, dtype="f")), want[0])
    cupy.random.seed(4)
    assert_alike([seen(cupy.random.rand(n, dtype="f")) for n in (2, 3)], want)
    assert not generators._KEPT.draws


@pytest.mark.skipif(ON == "gpu", reason="looks at the generator of the look-alike")
def test_what_was_put_back_goes_with_a_new_seed(nothing_kept):
    for shape in ((2,), (3,)):  # the one that is next, and another one
        cupy.random.seed(5)
        want = seen(cupy.random.rand(*shape, dtype="f"))
        cupy.random.seed(4)
        before = generators.Before(0)
        cupy.random.rand(2, dtype="f"), cupy.random.rand(3, dtype="f")
        before.put_back()
        cupy.random.seed(5)
        assert not generators._KEPT.draws
        assert_alike(seen(cupy.random.rand(*shape, dtype="f")), want)


@pytest.mark.skipif(ON == "gpu", reason="looks at the generator of the look-alike")
def test_what_was_put_back_goes_when_something_else_is_drawn(nothing_kept):
    cupy.random.seed(4)
    before = generators.Before(0)
    kept = [seen(cupy.random.rand(n, dtype="f")) for n in (2, 3)]
    before.put_back()
    cupy.random.rand(4, dtype="f")
    assert not generators._KEPT.draws
    assert not np.array_equal(cupy.random.rand(3, dtype="f").get(), kept[1][1])


def test_another_state_draws_for_itself():
    other = cupy.random.RandomState(9)
    want = seen(cupy.random.RandomState(9).rand(2, 2))
    before = generators.Before(0)
    cupy.random.rand(2, 2)
    before.put_back()
    assert_alike(seen(other.rand(2, 2)), want)
    cupy.random.seed(0)


def test_what_other_threads_draw_is_not_noted():
    before = generators.Before(0)
    join(start(cupy.random.rand, 3))
    assert before._noted == []
    before.end()


def test_where_they_cannot_be_set_back():
    """Of another CuPy, whose functions have other names."""
    with mock.patch("sdbr.call.trace_call.can_be_set_back", lambda: False):
        call = sdbr.static_graph(lambda x: after_a_dropout(x))
        text = "a value decides about the way after Dropout has drawn on a GPU"
        with pytest.warns(sdbr.SdbrWarning, match=text):
            call(normal(4, 3))
    generators._library.cache_clear()
    with mock.patch.dict("sys.modules", {"cupy_backends.cuda.libs.curand": None}):
        assert not generators.can_be_set_back()
    generators._library.cache_clear()
    assert generators.can_be_set_back()


def test_functions_are_watched_once():
    assert generators.can_be_set_back()
    assert not hasattr(curand.generateUniform.__wrapped__, "__wrapped__")
