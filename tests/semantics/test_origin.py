"""Row 10: what Python and NumPy compute during a call is recorded, compared or dynamic."""

from __future__ import annotations

import collections
import datetime
import itertools
import random
import time
import types

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import (
    BACKENDS,
    assert_all_near,
    assert_near,
    check,
    copy_of,
    gradients_of,
)
from tests.harness.models import Net, floats
from tests.harness.twins import X, pair, statistics_of, step
from tests.tolerances import GRADIENTS, RESULTS, SUMS

RNG = np.random.RandomState(11)
XS = [RNG.randn(5, 4).astype("f") for _ in range(8)]


def linear(forward):
    return lambda: Net(forward, l=L.Linear(4, 3))


# --- NumPy calls that are recorded --------------------------------------------------------------
class DQN(chainer.Chain):
    """The loss of Chainer's example, with everything that NumPy computes on the way."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.q = L.Linear(4, 3)
            self.target = L.Linear(4, 3)
        self.gamma = 0.9

    def forward(self, obs, action, reward, done, next_obs):
        with chainer.no_backprop_mode():
            best = F.max(self.target(next_obs), axis=1).array
        target = reward + self.gamma * (1 - done) * best
        chosen = F.select_item(self.q(obs), action)
        return F.mean(F.huber_loss(chosen[:, None], target[:, None], 1.0))


def transitions(rng):
    return (
        rng.randn(6, 4).astype("f"), rng.randint(0, 3, 6).astype("i"), rng.randn(6).astype("f"),
        (rng.rand(6) > 0.5).astype("f"), rng.randn(6, 4).astype("f"),
    )  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_dqn_loss(backend):
    check(DQN, transitions, backend=backend)


def test_a_discount_may_be_annealed():
    plain, static = pair(DQN)
    rng = np.random.RandomState(0)
    for i in range(6):
        plain.gamma = static.gamma = 0.5 + 0.1 * (i // 2)
        data = transitions(rng)
        assert_near(static(*data).array, plain(*data).array, RESULTS, "loss")
    assert static.schedule_manager.statistics.replays >= 3


class Masked(chainer.Chain):
    """Mean over what is no padding: t != -1, and lengths by NumPy."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.EmbedID(10, 3, ignore_label=-1)

    def forward(self, t):
        mask = t != -1
        n = mask.sum(axis=1).astype("f")
        y = self.l(t) * mask[:, :, None].astype("f")
        return F.sum(y, axis=1) / np.maximum(n, 1)[:, None]


def padded(rng):
    t = rng.randint(0, 10, (4, 6)).astype("i")
    for i in range(4):
        t[i, rng.randint(0, 6) :] = -1
    return (t,)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_padding_mask(backend):
    check(Masked, padded, backend=backend)


RECORDED = {
    "where": lambda self, x: self.l(x) * np.where(x[:, :1] > 0, x[:, 1:2], np.float32(2)),
    "order": lambda self, x: self.l(x)[np.argsort(x[:, 0])],
    "standardized": lambda self, x: self.l((x - x.mean(0)) / x.std() + 1),
    "stacked": lambda self, x: self.l(np.stack([row * 2 for row in x])),
    "count": lambda self, x: self.l(x) * np.sum(x > 0),
    "one-hot": lambda self, x: self.l(x) * np.eye(3, dtype="f")[x[:, :3].argmax(1)],
    "several results": lambda self, x: self.l(x) * np.divmod(x[:, :3], np.float32(2))[1],
    "parameter": lambda self, x: self.l(x) / np.abs(self.l.W.array).max(),
    "of a result": lambda self, x: self.l(x) * self.l(x).array.clip(0, 1),
    "shape and length": lambda self, x: self.l(x) * len(x) / x.shape[1] + x.ndim,
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", RECORDED)
def test_numpy_calls_are_recorded(name, backend):
    check(linear(RECORDED[name]), lambda rng: (rng.randn(5, 4).astype("f"),), backend=backend)


VIEWS = {
    "column": lambda x: x[:, 1],
    "row, reversed": lambda x: x[2, ::-1],
    "newaxis": lambda x: x[..., None, 1:3],
    "one element": lambda x: x[1, -1],
    "transposed": lambda x: x.T,
    "axes": lambda x: np.transpose(x[None], (2, 0, 1)),
    "flipped": lambda x: np.flip(x, axis=0),
    "broadcast": lambda x: np.broadcast_to(x[:1], (2, 4)),
    "reshaped": lambda x: x.reshape(2, -1),
    "reshaped columns": lambda x: x[:, 1:3].reshape((-1,)),
    "flat": lambda x: np.ravel(x.T),
    "squeezed": lambda x: x[:, :1].squeeze(),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["f", "i"])
@pytest.mark.parametrize("name", VIEWS)
def test_views_of_arrays_are_no_python_ops(name, dtype, backend):
    def forward(self, x):
        picked = VIEWS[name](x)
        return F.sum(self.l(picked.astype("f").reshape(1, -1))), picked

    def data(rng):
        return (rng.randint(-9, 9, (6, 4)).astype(dtype),)

    size = VIEWS[name](np.zeros((6, 4))).size
    make = lambda: Net(forward, l=L.Linear(size, 3))  # noqa: E731
    check(make, data, backend=backend, python_ops=False)


ORDERED = {
    "ravel": lambda x: x.ravel("F"),
    "reshape": lambda x: x.reshape((4, 6), order="F"),
    "by a list": lambda x: x[[2, 0]],
}


@pytest.mark.parametrize("name", ORDERED)
def test_what_is_no_view_in_c_order_is_right(name):
    check(
        linear(lambda self, x: self.l(x) * ORDERED[name](x).sum()),
        lambda rng: (rng.randn(6, 4).astype("f"),),
    )


DRAWN = {
    "rand": lambda self, x: self.l(x) * np.random.rand(3).astype("f"),
    "normal": lambda self, x: self.l(x) + np.random.normal(0, 1, (5, 3)).astype("f"),
    "permutation": lambda self, x: self.l(x)[np.random.permutation(5)],
    "xp": lambda self, x: self.l(x) * self.xp.random.uniform(0, 1, (5, 1)).astype("f"),
    "choice": lambda self, x: self.l(x) * np.random.choice(4, 3).astype("f"),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", DRAWN)
def test_draws_of_user_code_are_drawn_anew_in_order(name, backend):
    plain, static = pair(linear(DRAWN[name]), backend=backend)
    for i, x in enumerate(XS):
        found = []
        for model in (plain, static):
            np.random.seed(i)
            found.append((model(x).array, np.random.rand(2)))
        assert_near(found[1][0], found[0][0], RESULTS, "output")
        np.testing.assert_array_equal(found[1][1], found[0][1])
    assert static.schedule_manager.statistics.replays == 7


# --- what cannot be followed --------------------------------------------------------------------
class Counter:
    def __init__(self):
        self.n = 0

    def next(self):
        self.n += 1
        return self.n


# name -> (forward, attributes, what the warning says)
DYNAMIC = {
    "iterator": (lambda s, x: s.l(x) * next(s.a), lambda: iter(range(99)), "'a' is an iterator"),
    "itertools": (lambda s, x: s.l(x) * next(s.a), itertools.count, "'a' is an iterator"),
    "generator": (
        lambda s, x: s.l(x) * next(s.a), lambda: (i for i in range(99)), "'a' is an iterator",
    ),
    "RandomState": (
        lambda s, x: s.l(x) * s.a.rand(), lambda: np.random.RandomState(0), "random generator",
    ),
    "Generator": (
        lambda s, x: s.l(x) * s.a.random(3).astype("f"), lambda: np.random.default_rng(0),
        "random generator",
    ),
    "random.Random": (
        lambda s, x: s.l(x) * s.a.random(), lambda: random.Random(0), "random generator",
    ),
    "random": (lambda s, x: s.l(x) * random.random(), int, "random.random"),
    "object that counts": (
        lambda s, x: s.l(x) * len(str(s.a.next())), Counter,
        "'self.a.n', which the call reads, is changed",
    ),
    "deque": (
        lambda s, x: (s.a.append(s.l(x)), s.a[-1])[1], lambda: collections.deque(maxlen=2),
        "'a' is read after",
    ),
    "array in a dict, in place": (
        lambda s, x: s.l(x) * np.add(s.a["k"], 1, out=s.a["k"]),
        lambda: {"k": np.zeros(3, "i")}, "an array was written in place by NumPy",
    ),
    "float": (lambda s, x: s.l(x) * float(str(float(x[0, 0]))), int, "float"),
    "item": (lambda s, x: s.l(x) * hash(x[0, 0].item()), int, "item"),
    "tolist": (lambda s, x: s.l(x) * sum(np.repeat(x, 9).tolist()), int, "tolist"),
    "in place": (lambda s, x: _incremented(s.l(x)), int, "in place"),
    "shuffle": (lambda s, x: (np.random.shuffle(s.a), s.l(x) * s.a)[1],
                lambda: np.arange(3, dtype="f"), "numpy.random.shuffle"),
}  # fmt: skip


def _incremented(h):
    h.array[...] += 1
    return h


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_calls_fall_back_or_raise(name):
    forward, attribute, text = DYNAMIC[name]
    plain, static = pair(linear(forward))
    static = sdbr.static_graph(static, on_dynamic="fallback")
    for model in (plain, static):
        model.a = attribute()
    with pytest.warns(sdbr.SdbrWarning, match=text) as caught:
        for i, x in enumerate(XS):
            found = []
            for model in (plain, static):
                np.random.seed(i)
                random.seed(i)
                found.append(model(x).array)
            assert_near(found[1], found[0], RESULTS, f"call {i}")
    assert len(caught) == 1
    assert "is not static" in str(caught[0].message)
    assert static.schedule_manager.statistics.replays == 0

    raising = sdbr.static_graph(linear(forward)(), on_dynamic="raise")
    raising.a = attribute()
    with pytest.raises(sdbr.NotStaticError, match=text):
        for _ in range(5):  # what it changes itself, it may change but once
            raising(XS[0])


@pytest.mark.parametrize(
    ("clock", "text"),
    [
        (lambda: time.time(), "time.time"),
        (lambda: time.perf_counter(), "time.perf_counter"),
        (lambda: datetime.datetime.now().second, "now"),
    ],
)
def test_the_clock_is_dynamic(clock, text):
    static = sdbr.static_graph(lambda x: F.relu(x) * (clock() * 0 + 1), on_dynamic="raise")
    with pytest.raises(sdbr.NotStaticError, match=text):
        static(XS[0])


def test_the_clock_in_static_code_is_none_of_ours():
    times = []

    @sdbr.static_code
    def tick(inputs):
        times.append(time.perf_counter())

    @sdbr.static_graph(on_dynamic="raise")
    def f(x):
        y = F.relu(x)
        tick(inputs=[y.array])
        return y

    for x in XS:
        f(x)
    assert len(times) == 8
    assert f.schedule_manager.statistics.replays == 7


# --- what changes between the calls -------------------------------------------------------------
def _fill(array, i):
    array[...] = 1 + i // 3


# name -> (forward, attribute, what happens between the calls)
CHANGING = {
    "array in a dict, used": (
        lambda s, x: s.l(x) * s.a["k"], lambda: {"k": np.ones(3, "f")},
        lambda s, i: _fill(s.a["k"], i),
    ),
    "arrays in a dict and a list, combined": (
        lambda s, x: s.l(x) * (s.a["k"] * s.a["l"][0]),
        lambda: {"k": np.ones(3, "f"), "l": [np.ones(3, "f")]}, lambda s, i: _fill(s.a["k"], i),
    ),
    "number out of an array in a dict": (
        lambda s, x: s.l(x) * float(s.a["k"].sum()), lambda: {"k": np.ones(3, "f")},
        lambda s, i: _fill(s.a["k"], i),
    ),
    "array of an object": (
        lambda s, x: s.l(x) * (s.a.k * 2), lambda: types.SimpleNamespace(k=np.ones(3, "f")),
        lambda s, i: _fill(s.a.k, i),
    ),
    "array of an object, replaced": (
        lambda s, x: s.l(x) * (s.a.k * 2), lambda: types.SimpleNamespace(k=np.ones(3, "f")),
        lambda s, i: setattr(s.a, "k", np.full(3, 1 + i // 3, "f")),
    ),
    "large array": (
        lambda s, x: s.l(x) * s.a[0].mean(), lambda: [np.ones(3_000_000, "f")],
        lambda s, i: _fill(s.a[0], i),
    ),
    "number of an object in a dict": (
        lambda s, x: s.l(x) * s.a["o"].z, lambda: {"o": types.SimpleNamespace(z=1.0)},
        lambda s, i: setattr(s.a["o"], "z", 1.0 + i // 3),
    ),
    "numbers in a list": (
        lambda s, x: s.l(x) * np.array(s.a, "f"), lambda: [1.0, 2.0, 3.0],
        lambda s, i: s.a.__setitem__(0, i // 3),
    ),
    "a set": (
        lambda s, x: s.l(x) * len(s.a), lambda: {0}, lambda s, i: s.a.add(i // 3),
    ),
    "array on the chain, by a method": (
        lambda s, x: s.l(x) * s.a.sum(), lambda: np.ones(3, "f"), lambda s, i: _fill(s.a, i),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGING)
def test_what_changes_between_the_calls_is_seen(name):
    forward, attribute, between = CHANGING[name]
    plain, static = pair(linear(forward))
    for model in (plain, static):
        model.a = attribute()
    for i, x in enumerate(XS):
        assert_near(static(x).array, plain(x).array, RESULTS, f"call {i}")
        between(plain, i)
        between(static, i)
    statistics = static.schedule_manager.statistics
    assert statistics.replays >= 2
    assert statistics.define_by_run_calls == 0


def test_arrays_of_globals_and_closures_that_only_numpy_code_reads():
    first, second = np.ones(3, "f"), [np.ones(3, "f")]
    plain, static = pair(linear(lambda self, x: self.l(x) * (first * second[0])))
    for i, x in enumerate(XS):
        assert_near(static(x).array, plain(x).array, RESULTS, f"call {i}")
        _fill(first if i < 4 else second[0], i)
    assert static.schedule_manager.statistics.replays >= 2


def test_an_array_in_a_dict_may_be_replaced():
    """It is read anew in every call: nothing is traced again."""
    plain, static = pair(linear(lambda self, x: self.l(x) * self.a["k"][0]))
    for i, x in enumerate(XS):
        for model in (plain, static):
            model.a = {"k": [np.full((5, 3), i, "f")]}
        assert_near(static(x).array, plain(x).array, RESULTS, f"call {i}")
    assert static.schedule_manager.statistics.traces == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_derived_arrays_are_recorded(backend):
    """NumPy on known arrays: the calls are replayed, with fresh data."""

    def forward(self, x, t, done):
        weight = np.where(t != -1, 1, 0).astype("f")
        mask = (x > 0) * np.exp(-np.abs(x))
        scaled = (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-3)
        last = np.stack([scaled[i, :2] for i in range(5)])
        target = x[:, 0] + 0.9 * (1 - done) * self.l(last).array.max(axis=1)
        h = self.l(scaled[:, :2] * mask[:, 2:] + np.sort(x, axis=1)[:, ::2])
        self.smoothed = np.clip(h.array.mean(0), -1, 1)
        return F.sum((F.max(h, axis=1) - target) ** 2 * weight), np.argmax(h.array, axis=1)

    plain, static = pair(lambda: Net(forward, l=L.Linear(2, 3)), backend=backend)
    rng = np.random.RandomState(0)
    for _ in range(5):
        x, t, done = floats(5, 4)(rng), rng.randint(-1, 2, 5), rng.randint(0, 2, 5).astype("f")
        got = []
        for model in (plain, static):
            loss, best = model(x, t, done)
            model.cleargrads()
            loss.backward()
            got.append({"loss": copy_of(loss.array), "best": copy_of(best),
                        "smoothed": copy_of(model.smoothed), **gradients_of(model)})  # fmt: skip
        assert_all_near(got[1], got[0], SUMS, "derived")
    assert (statistics_of(static).traces, statistics_of(static).replays) == (1, 4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_pure_arrays_are_constants_at_once(backend):
    def forward(self, x):
        ramp = np.arange(3, dtype="f") * 2 + np.ones(3, "f")
        ramp[1] = -1
        ramp += np.linspace(0, 1, 3, dtype="f")
        eye = chainer.Variable(self.xp.eye(3, dtype="f"))
        if float(ramp[0]) > 0:
            eye = eye * 2
        return F.matmul(self.l(x) + ramp, eye) + np.zeros_like(x)[:, :3]

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 3)), backend=backend)
    for i in range(4):
        (y, g), (z, h) = step(static, X + i), step(plain, X + i)
        assert_near(y, z, RESULTS, "output")
        assert_all_near(g, h, GRADIENTS, "gradient")
    assert (statistics_of(static).traces, statistics_of(static).replays) == (1, 3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_known_arrays_inside_attributes_of_nodes(backend):
    """Indices that come from the data, in tuples and lists on the node."""

    def forward(self, x, rows, mask):
        h = self.l(x)
        return (
            F.get_item(h, (rows, slice(1, 3))) * 2,
            F.where(mask, h, -h),
            F.dropout(h, mask=mask * 2.0),
        )

    plain, static = pair(
        lambda: Net(lambda s, *a: forward(s, *a)[:2], l=L.Linear(4, 3)), backend=backend
    )
    rng = np.random.RandomState(0)
    for _ in range(5):
        rows, mask = rng.randint(0, 5, 3), rng.rand(5, 3) > 0.5
        got = []
        for model in (plain, static):
            a, b = model(X, rows, mask)
            model.cleargrads()
            (F.sum(a * a) + F.sum(b)).backward()
            got.append({"a": copy_of(a.array), "b": copy_of(b.array), **gradients_of(model)})
        assert_all_near(got[1], got[0], SUMS, "rows")
    assert statistics_of(static).replays == 4


def test_arrays_kept_since_an_earlier_trace():
    """User code may hold what it saw while an earlier call was traced."""
    kept = {}

    def forward(self, x):
        if "first" not in kept:
            kept["first"] = x * 2
        return self.l(x) + self.m(kept["first"])

    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3), m=L.Linear(4, 3)))
    first = static(X)
    assert_near(first.array, (static.l(X) + static.m(X * 2)).array, RESULTS, "first")
    for i in range(5):
        want = static.l(X + i) + static.m(X * 2)
        assert_near(static(X + i).array, want.array, RESULTS, f"call {i}")
