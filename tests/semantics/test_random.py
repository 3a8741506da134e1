"""Row 2: draws are those of define-by-run in its order, and other ones in every replay."""

from __future__ import annotations

import cProfile
import functools
import os
import random
import secrets
import sys
import threading
import uuid

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from numpy.random import rand

from tests.harness.comparison import BACKENDS, assert_all_near, assert_near
from tests.harness.draws import STOCHASTIC, X, run
from tests.harness.models import Net
from tests.harness.threads import join, start
from tests.tolerances import RESULTS, ROUNDINGS, SUMS


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", STOCHASTIC)
def test_draws(name, backend):
    W = np.random.RandomState(1).randn(4, 4).astype("f")
    plain = Net(STOCHASTIC[name], l=L.Linear(4, 4, initialW=W))
    static = sdbr.static_graph(
        Net(STOCHASTIC[name], l=L.Linear(4, 4, initialW=W)), backend=backend, on_dynamic="raise"
    )
    for seed in (3, 4):
        want, got = run(plain, seed), run(static, seed)
        # What define-by-run draws, draw by draw, and not one draw more or less.
        for g, w in zip(got, want, strict=True):
            assert_all_near(g, w, SUMS, name)
        outputs = {record["y"].tobytes() for record in got[:-1]}
        assert len(outputs) == 5, "a replay repeated a draw"
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, 9)


@pytest.mark.parametrize("backend", BACKENDS)
def test_masks_under_one_seed_are_identical(backend):
    """Exact: a mask is zero or 1 / (1 - ratio)."""
    ones = np.ones((50, 40), "f")
    static = sdbr.static_graph(lambda x: F.dropout(x, 0.3), backend=backend)
    for seed in range(4):
        np.random.seed(seed)
        got = static(ones).array
        np.random.seed(seed)
        np.testing.assert_array_equal(got, F.dropout(ones, 0.3).array)
    assert static.schedule_manager.statistics.replays == 3


def test_the_generator_can_be_replaced():
    static = sdbr.static_graph(lambda x: F.dropout(x, 0.5))
    static(X)
    state = np.random.RandomState(11).get_state()
    np.random.set_state(state)
    got = static(X).array
    np.random.set_state(state)
    np.testing.assert_array_equal(got, F.dropout(X, 0.5).array)


def test_a_draw_of_a_python_number_is_dynamic():
    static = sdbr.static_graph(
        Net(lambda self, x: self.l(x) * np.random.rand(), l=L.Linear(4, 4)), on_dynamic="raise"
    )
    with pytest.raises(sdbr.NotStaticError, match="drew a Python number"):
        static(X)


def test_a_generator_of_its_own_is_dynamic():
    rng = np.random.RandomState(0)
    static = sdbr.static_graph(lambda x: F.relu(x) + rng.randn(6, 4).astype("f"))
    plain = np.random.RandomState(0)
    with pytest.warns(sdbr.SdbrWarning, match="a random generator of its own"):
        for _ in range(4):
            want = np.maximum(X, 0) + plain.randn(6, 4).astype("f")
            assert_near(static(X).array, want, ROUNDINGS, "output")


@pytest.mark.parametrize("backend", BACKENDS)
def test_test_mode_draws_nothing(backend):
    static = sdbr.static_graph(lambda x: F.dropout(x, 0.5), backend=backend)
    np.random.seed(0)
    with chainer.using_config("train", False):
        for _ in range(3):
            np.testing.assert_array_equal(static(X).array, X)
    after = np.random.rand()
    np.random.seed(0)
    assert after == np.random.rand()


@pytest.mark.parametrize("backend", BACKENDS)
def test_first_iteration_computes_once(backend):
    """Contract 1: draws and batch statistics move once in the traced call."""
    static = sdbr.static_graph(
        Net(
            lambda self, x: F.dropout(self.n(self.l(x))),
            l=L.Linear(4, 4),
            n=L.BatchNormalization(4),
        ),
        backend=backend,
    )
    np.random.seed(0)
    F.sum(static(X)).backward()
    batch = static.l(X).array.mean(0)
    assert_near(static.n.avg_mean, (0.1 * batch).astype("f"), RESULTS, "running mean")
    after = np.random.rand()
    np.random.seed(0)
    np.random.rand(6, 4)
    assert after == np.random.rand()


# --- draws that are not called through their module ----------------------------------------------
def twice_seeded(static, plain, n=6):
    """Both draw the same from NumPy's global generator, and leave it at the same place."""
    for i in range(n):
        np.random.seed(i)
        want, left = plain(X), np.random.rand()
        np.random.seed(i)
        assert_near(static(X).array, want.array, ROUNDINGS, "output")
        assert np.random.rand() == left


def by_name(x):
    return F.relu(x) + rand(6, 4).astype("f")


@pytest.mark.parametrize("where", ["global", "closure", "attribute"])
def test_a_draw_that_was_imported_by_name_is_recorded(where):
    draw = np.random.uniform
    net = Net(lambda self, x: F.relu(x) + self.draw(0, 1, (6, 4)).astype("f"))
    net.draw = np.random.uniform
    plain = {
        "global": by_name,
        "closure": lambda x: F.relu(x) + draw(0, 1, (6, 4)).astype("f"),
        "attribute": net.copy(),
    }[where]
    static = sdbr.static_graph(net if where == "attribute" else plain, on_dynamic="raise")
    twice_seeded(static, plain)
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, 5)
    assert rand is np.random.rand
    assert draw is np.random.uniform is net.__dict__["draw"]


HELD = {
    "numpy": np.random.RandomState(0),
    "python": random.Random(0),
    "new": np.random.default_rng(0),
}
DRAWS = {"partial": functools.partial(np.random.rand, 6, 4), "urandom": os.urandom}
# name -> (what makes an array or a number, what the warning says)
UNSEEN = {
    "RandomState": (lambda: HELD["numpy"].randn(6, 4), "HELD['numpy']"),
    "Random": (lambda: HELD["python"].gauss(0, 1), "random.random drew a number"),
    "Generator": (lambda: HELD["new"].normal(), "HELD['new']"),
    "system": (lambda: DRAWS["urandom"](4)[0], "random bytes of the system"),
    "no seed": (lambda: np.random.default_rng().random(), "random bytes of the system"),
    "secrets": (lambda: secrets.randbelow(100), "random bytes of the system"),
    "uuid4": (lambda: uuid.uuid4().int % 100, "random bytes of the system"),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_a_draw_that_cannot_be_recorded_is_dynamic(name):
    draw, message = UNSEEN[name]
    static = sdbr.static_graph(lambda x: F.relu(x) * np.float32(np.mean(draw())))
    with pytest.warns(sdbr.SdbrWarning, match="is not static") as caught:
        for _ in range(4):
            static(X)
    assert message in str(caught[0].message)
    assert "test_random.py:" in str(caught[0].message)  # not a line of the standard library
    assert static.schedule_manager.statistics.replays == 0


def test_a_draw_by_a_name_of_its_own_is_recorded():
    static = sdbr.static_graph(lambda x: F.relu(x) * DRAWS["partial"]().mean(), on_dynamic="raise")
    for i in range(4):
        np.random.seed(i)
        got = static(X)
        np.random.seed(i)
        np.testing.assert_allclose(
            got.array, np.maximum(X, 0) * np.random.rand(6, 4).mean(), RESULTS
        )
    assert static.schedule_manager.statistics.replays == 3


def test_a_generator_that_is_not_drawn_from_changes_nothing():
    rng, deep = np.random.RandomState(0), {"rng": random.Random(0)}

    def forward(x):
        if chainer.config.train:
            x = x * np.float32(rng.rand() + deep["rng"].random())
        return F.relu(x)

    static = sdbr.static_graph(forward, on_dynamic="raise")
    with chainer.using_config("train", False):
        for _ in range(4):
            static(X)
    assert static.schedule_manager.statistics.replays == 3


def test_functions_and_static_code_may_draw_as_they_like():
    rng = np.random.RandomState(0)

    @sdbr.static_code
    def noise():
        return rng.rand(6, 4).astype("f")

    static = sdbr.static_graph(lambda x: F.dropout(x, 0.5) + noise(), on_dynamic="raise")
    outputs = [static(X).array.tobytes() for _ in range(5)]
    assert len(set(outputs)) == 5
    assert static.schedule_manager.statistics.replays == 4


def test_while_another_thread_lives_the_global_generator_tells_nothing():
    """It may be the one that draws: a call must not become dynamic for that."""
    stop = threading.Event()
    thread = start(lambda: [np.random.rand() for _ in iter(stop.is_set, True)])
    try:
        static = sdbr.static_graph(lambda x: F.relu(F.tanh(x)), on_dynamic="raise")
        for _ in range(4):
            static(X)
        assert static.schedule_manager.statistics.replays == 3
        trace = static.schedule_manager.static_schedule.trace
        assert any("global random generator" in text for text in trace.unwatched)
    finally:
        stop.set()
        join(thread)


def test_under_a_profiler_of_the_user():
    """Nothing is taken from it, and what is not seen then is said."""
    static = sdbr.static_graph(lambda x: F.relu(x))
    profiler = cProfile.Profile()
    profiler.enable()
    static(X)
    profiler.disable()
    assert profiler.getstats()
    (schedule,) = next(iter(static.schedule_manager.schedules.values()))
    # From Python 3.12 on a profiler leaves room for another.
    seen = any("profiler" in text for text in schedule.trace.unwatched)
    assert seen == (sys.version_info < (3, 12))
    other = sdbr.static_graph(lambda x: F.relu(x))
    other(X)
    assert sys.getprofile() is None
    assert not other.schedule_manager.static_schedule.trace.unwatched


SMALL = np.random.RandomState(0).randn(3, 2).astype("f")


@pytest.mark.parametrize(
    "draw",
    [
        lambda: (lambda a: np.random.shuffle(a) or a[0])([1, 2, 3, 4]),
        lambda: (lambda a: np.random.shuffle(a) or a[0])(np.arange(4)),
        lambda: np.random.bytes(1)[0],
        lambda: random.seed(3) or 1,
    ],
)
def test_generators_used_past_draws_of_arrays(draw):
    """They are dynamic: said once, and right."""
    plain = lambda x: F.dropout(x) * draw()  # noqa: E731
    static = sdbr.static_graph(plain)
    got = []
    for f in (static, plain):
        np.random.seed(0)
        random.seed(0)
        with pytest.warns(sdbr.SdbrWarning) if f is static else pytest.MonkeyPatch.context():
            got.append([f(SMALL).array for _ in range(4)] + [np.random.rand(), random.random()])
    for a, b in zip(*got, strict=True):
        np.testing.assert_array_equal(a, b)


def test_draw_of_python_is_not_frozen():
    @sdbr.static_graph
    def f(x):
        return F.tanh(x) * random.random()

    x = np.ones((2, 3), "f")
    with pytest.warns(sdbr.SdbrWarning, match=r"random\.random drew a number"):
        drawn = [float(f(x).array[0, 0]) for _ in range(4)]
    assert len(set(drawn)) == 4


OF_ONES_OWN = {
    "randint": lambda old, new: old.randint(9), "choice": lambda old, new: old.choice(3),
    "integers": lambda old, new: new.integers(9),
    "through map": lambda old, new: next(map(old.randint, [9])),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("name", OF_ONES_OWN)
def test_whole_numbers_of_a_generator_of_ones_own(name):
    """NumPy makes arrays of what it draws from, by functions that a trace patches."""
    drawn = []
    for is_static in (False, True):
        generators = np.random.RandomState(0), np.random.default_rng(0)
        call = lambda x, g=generators: F.tanh(x) * OF_ONES_OWN[name](*g)  # noqa: E731
        call = sdbr.static_graph(call) if is_static else call
        drawn.append([call(SMALL).array.tolist() for _ in range(4)])
    assert drawn[0] == drawn[1]
