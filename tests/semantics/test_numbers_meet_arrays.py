"""Row 11: a float beside an array is read anew by each replay, and counts as NumPy has it count."""

from __future__ import annotations

import warnings

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F

from tests.harness.comparison import assert_near
from tests.harness.numbers import BY_VALUE, EXPONENTS_BY_VALUE
from tests.tolerances import DOUBLE, RESULTS

X = np.random.RandomState(0).randn(3, 4).astype("f")
NUMBERS = [0.05 + 0.1 * i for i in range(6)]
ODD = [0.0, -0.0, 1e300, np.inf, np.nan, -1e-50, 1e-40, 3.0]
V = chainer.Variable


def written(x, write):
    x = x.copy()
    write(x)
    return x


#: name -> function of an array and a number
ARRAYS = {
    "operators": lambda x, c: (x * c, c * x, x + c, c - x, x / c, c / x, -c * x),
    "whole parts": lambda x, c: (x // c, x % c, abs(x) ** c, c ** abs(x)),
    "comparisons": lambda x, c: (x > c, c > x, x == c, np.maximum(x, c), np.fmin(c, x)),
    "in place": lambda x, c: written(x, lambda y: y.__imul__(c)),
    "out": lambda x, c: written(x, lambda y: np.add(y, c, out=y)),
    "dtype": lambda x, c: np.multiply(x, c, dtype="d"),
    "where=": lambda x, c: np.multiply(x, c, where=x > 0, out=np.zeros_like(x)),
    "outer": lambda x, c: np.multiply.outer(x, c),
    "an item": lambda x, c: written(x, lambda y: y.__setitem__(0, c)),
    "a list of items": lambda x, c: written(x, lambda y: y.__setitem__(0, [c, 1, c, 2 * c])),
    "a mask": lambda x, c: written(x, lambda y: y.__setitem__(y > c, c)),
    "fill": lambda x, c: written(x, lambda y: y.fill(c)),
    "copyto": lambda x, c: written(x, lambda y: np.copyto(y, c, where=y > 0)),
    "putmask": lambda x, c: written(x, lambda y: np.putmask(y, y > 0, c)),
    "add.at": lambda x, c: written(x, lambda y: np.add.at(y, [0, 0, 1], c)),
    "clip": lambda x, c: (np.clip(x, -c, c), x.clip(-c, c), np.clip(x, a_min=c, a_max=None)),
    "where": lambda x, c: (np.where(x > 0, x, c), np.where(x > 0, c, 0)),
    "full": lambda x, c: (np.full(x.shape, c), np.full_like(x, c), np.full(3, c, "f") * x[:, 0]),
    "array": lambda x, c: x * np.array([c, 1, c, 2], "f"),
    "array of doubles": lambda x, c: x * np.array([c, 1, c, 2]),
    "linspace": lambda x, c: x * np.linspace(0, c, 4),
    "concatenate": lambda x, c: np.concatenate([x[0], [c, 2 * c]]),
    "percentile": lambda x, c: np.percentile(x, 100 * min(c, 1), axis=0),
    "made from nothing": lambda x, c: (np.ones((3, 4), "f") * c, np.zeros((3, 4)) + c + x),
    "a number of NumPy's": lambda x, c: np.float32(2) * c * x,
    "NumPy of the number": lambda x, c: (x * np.sqrt(c), x * np.clip(c, 0.1, 0.3)),
    "arithmetic before": lambda x, c: x * (1 - c) ** 2,
    "float()": lambda x, c: x * float(c),
    "handed back": lambda x, c: (x + 0, c, c * np.float32(2), np.sqrt(c)),
    "into a Variable": lambda x, c: F.relu(V(x * c)).array,
}


def assert_same(got, want, where):
    if isinstance(want, (tuple, list)):
        assert type(got) is type(want) and len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            assert_same(a, b, where)
        return
    if isinstance(want, dict):
        assert_same(list(got.items()), list(want.items()), where)
        return
    if isinstance(want, V):
        got, want = got.array, want.array
    assert type(got) is type(want), where
    np.testing.assert_array_equal(got, want, str(where), strict=True)
    if isinstance(want, np.ndarray) and want.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def check(function, calls, traces=1):
    """Every call of the static function is that of the plain one, bit for bit, and a replay."""
    static = sdbr.static_graph(function, on_dynamic="raise")
    for i, args in enumerate(calls):
        assert_same(static(*args), function(*args), (i, args[1:]))
    statistics = static.schedule_manager.statistics
    assert statistics.traces == traces
    assert statistics.replays == len(calls) - statistics.traces
    return static


@pytest.mark.parametrize("name", ARRAYS)
def test_a_float_beside_an_array(name):
    by_value = EXPONENTS_BY_VALUE and name == "whole parts"  # with an exponent in them
    traces = len(NUMBERS) if by_value else 1
    check(ARRAYS[name], [(X + np.float32(i), c) for i, c in enumerate(NUMBERS)], traces)


@pytest.mark.parametrize("dtype", ["f", "d", "e", "i", "b", "?"])
@pytest.mark.parametrize("kind", [float, np.float64, np.float32, np.float16])
def test_dtypes_are_those_of_numpy(kind, dtype):
    x = (5 * X).astype(dtype)

    def function(x, c):
        rest = () if dtype == "?" else (x > c, np.maximum(c, x), x - c, x % (abs(c) + 1))
        return (x * c, c + x, x / c, *rest)

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        # Numbers that are too large for the dtype.
        more = 3 * (BY_VALUE and kind in (float, np.float64) and dtype in "fe")
        check(function, [(x, kind(c)) for c in NUMBERS + ODD], 1 + more)


def in_place(x, c):
    y = np.abs(x)
    y **= c
    return y


BEYOND = {
    "exponent": lambda x, c: np.abs(x) ** c,
    "of a loss": lambda x, c: (1 - F.softmax(x).array[:, 0]) ** c,
    "in place": in_place,
    "computed": lambda x, c: np.abs(x) ** (float((x > c).sum()) - 1),
    "factor": lambda x, c: x * (c * 1e5),
    "half": lambda x, c: x.astype("e") * (c * 32600),
    "large": lambda x, c: x * (c * 1.701e38),
    "where": lambda x, c: np.where(x > 0, x, c * 1.701e38),
    "clip": lambda x, c: np.clip(x, -c * 1e39, c * 1e39),
}


@pytest.mark.parametrize("name", BEYOND)
def test_exponents_and_numbers_beyond_the_dtype(name):
    """Before NumPy 2.3 an operator takes the value of an exponent, before 2 a dtype hangs on it."""
    static = sdbr.static_graph(BEYOND[name])
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i, c in enumerate((2.0, 0.5, 1.5, 0.1, 2.0, 1.0, 0.5, -1.0, 2.0, 0.5)):
            x = X + np.float32(i)
            assert_same(static(x, c), BEYOND[name](x, c), (i, c))
    is_left = EXPONENTS_BY_VALUE and name == "computed"
    assert static.schedule_manager.statistics.replays >= 2 - 2 * is_left


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("name", ["operators", "an item", "full", "arithmetic before", "clip"])
def test_numbers_of_numpy_as_arguments(name, kind):
    check(ARRAYS[name], [(X + np.float32(i), kind(c)) for i, c in enumerate(NUMBERS)])


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_numbers_of_numpy_beside_variables(dtype, kind):
    x = X.astype(dtype)
    static = check(
        lambda x, c: (x * c, c * x, x + c, c - x, x / c, c / x, (1 - c) * x),
        [(V(x + i), kind(c)) for i, c in enumerate(NUMBERS)],
    )
    assert bool(static.schedule_manager.statistics.python_ops) == (kind is np.float16)  # 1 - c
    assert static.schedule_manager.runners


@pytest.mark.parametrize("kind", [float, np.float64, np.float32])
def test_gradients_and_the_number_of_the_call(kind):
    def function(x, c):
        return F.sum((x * c) ** 2 * V(x.array * c))

    static = sdbr.static_graph(function)
    for c in map(kind, NUMBERS):
        found = []
        for f in (function, static):
            x = V(X.astype("d"))
            y = f(x, c)
            y.backward()
            found.append(x.grad)
        assert_near(found[1], found[0], DOUBLE, "gradient")
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, len(NUMBERS) - 1)


def test_what_numpy_has_of_its_numbers():
    """Kinds, dtypes and shapes are alike in all calls; values are those of the call."""

    def function(x, c):
        return x.astype(c.dtype) * c.item() + c.ndim + c.size, isinstance(c, float), type(c) is kind

    for kind in (np.float64, np.float32):
        check(function, [(X, kind(c)) for c in NUMBERS])


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, c: x * len(f"{c:.1e}{2 * c:g}"),
        lambda x, c: F.leaky_relu(x, c),
        lambda x, c: F.clip(x, -c, 2 * c),
        lambda x, c: F.elu(x, c),
        lambda x, c: x * {0.5: 2.0, 0.25: 3.0}[c],
        lambda x, c: x * round(float(c), 1),
    ],
    ids=["text", "slope", "bounds", "stored", "key", "rounded"],
)
def test_other_uses_make_the_value_part_of_the_key(function, kind):
    static = sdbr.static_graph(function, on_dynamic="raise")
    for c in (0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.5):
        assert_same(static(V(X), kind(c)), function(V(X), kind(c)), c)
    assert static.schedule_manager.statistics.replays >= 3


def test_branches_on_numbers_of_numpy():
    def function(x, c):
        return x * c if c > 0.3 else x + c

    check(function, [(X, np.float32(c)) for c in NUMBERS], traces=2)
    check(function, [(X, np.float64(c)) for c in NUMBERS], traces=2)


def test_draws_with_a_number():
    def function(x, c):
        return x + np.random.normal(0, c, x.shape)

    static = sdbr.static_graph(function, on_dynamic="raise")
    for i, c in enumerate(NUMBERS):
        found = []
        for f in (static, function):
            np.random.seed(i)
            found.append(f(X, c))
        assert_same(*found, c)
    assert static.schedule_manager.statistics.replays == len(NUMBERS) - 1


def test_attributes_and_counters_beside_arrays():
    class Link(chainer.Link):
        def __init__(self):
            super().__init__()
            self.beta, self.t = 0.5, 0

        def forward(self, x):
            self.t += 1
            return x * self.beta + x / self.t

    plain, static = Link(), sdbr.static_graph(Link(), on_dynamic="raise")
    for i in range(6):
        plain.beta = static.beta = 0.5 / (i + 1)
        assert_same(static(X), plain.forward(X), i)
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, 5)


def test_a_step_with_a_number_beside_an_array():
    class Mixed(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l = chainer.links.Linear(4, 2, initialW=0.1)

        def forward(self, x, noise, c):
            return F.mean(self.l(x + c * noise) ** 2)

    weights = []
    for wrapped in (False, True):
        model = sdbr.static_graph(Mixed()) if wrapped else Mixed()
        optimizer = chainer.optimizers.SGD(0.1)
        optimizer = (sdbr.static_optimizer(optimizer) if wrapped else optimizer).setup(model)
        for i, c in enumerate(NUMBERS):
            optimizer.update(model, X + np.float32(i), X[::-1], np.float32(c) if i % 2 else c)
        weights.append(model.l.W.array)
    assert_near(weights[1], weights[0], RESULTS, "weights")
    statistics = model.schedule_manager.statistics
    assert (statistics.traces, statistics.steps) == (2, 4)


# --- whole numbers ------------------------------------------------------------------------------
WHOLE = {
    "variables": lambda x, n: (V(x) * n, n * V(x), V(x) + n, n - V(x), V(x) / n, n / (V(x) + 99)),
    "arrays": lambda x, n: (x * n, n * x, x + n, n - x, x / n, n / (x + 99), np.maximum(x, n)),
    "arithmetic": lambda x, n: (x * (1 / n), V(x) * (n / 10) + n**2, x * 0.5**n, x * -n + abs(n)),
    "handed back": lambda x, n: (x + 0, n, n + 1, n / 2, [n], {"n": -n}),
    "asked for its class": lambda x, n: x * n if isinstance(n, int) and type(n) is int else x,
    "NumPy of the number": lambda x, n: V(x) * np.sqrt(n),
    "bits": lambda x, n: x * ((1 << n) + (n & 3)),
}


@pytest.mark.parametrize("dtype", ["f", "d", "e"])
@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_number_that_scales(name, dtype):
    """The first one that differs is traced once more; later ones are free."""
    x = X.astype(dtype)
    more = 2 * (BY_VALUE and (name, dtype) == ("bits", "e"))
    check(WHOLE[name], [(x + x.dtype.type(i), i) for i in range(1, 9)], 2 + more)


def test_whole_numbers_that_no_float_is():
    numbers = [1, 2, 3, 2**24 + 1, 2**53 + 1, 10**30, -4, 5]
    for function in (WHOLE["arrays"], lambda x, n: V(x) * n):
        static = sdbr.static_graph(function)
        for n in numbers:
            assert_same(static(X, n), function(X, n), n)
        assert static.schedule_manager.statistics.replays >= 3


#: name -> function of an array and a number, what the number is in calls, traces of these
DECIDING = {
    "branch": (lambda x, n: x * n if n > 3 else x - n, range(1, 9), 3),
    "remainder": (lambda x, n: x * 2 if n % 2 else x * n, range(1, 9), 3),
    "index of a remainder": (lambda x, n: x[n % 3] * n, range(1, 9), 4),
    "range": (lambda x, n: sum((x for _ in range(n)), x), (1, 2, 3, 1, 2, 3), 3),
    "index": (lambda x, n: x[n] * n, (0, 1, 2, 0, 1, 2), 3),
    "axis": (lambda x, n: F.sum(V(x), axis=n) * n, (0, 1, 0, 1), 2),
    "shape": (lambda x, n: F.tile(V(x), (n, 1)) + np.zeros((3 * n, 4), "f"), (1, 2, 3, 1, 2, 3), 3),
    "slice": (lambda x, n: x[:, :n] * n, (1, 2, 3, 1, 2, 3), 3),
    "key": (lambda x, n: x * {1: 2, 2: 5}.get(n, 7), (1, 2, 3, 1, 2, 3), 3),
    "text": (lambda x, n: x * len(f"{n}" + "%d" % n), (1, 20, 300, 1, 20, 300), 3),  # noqa: UP031
    "attribute of a function": (
        lambda x, n: F.max_pooling_2d(V(x[None, None]), n), (1, 2, 3, 1, 2, 3), 3
    ),
    "array of whole numbers": (lambda x, n: x.astype("i") * n, (1, 2, 3, 1, 2, 3), 3),
    "another class": (lambda x, n: x * n, 2 * (1, 2.0, True, np.int64(3)), 4),
}  # fmt: skip


@pytest.mark.parametrize("name", DECIDING)
def test_a_whole_number_that_decides(name):
    function, numbers, traces = DECIDING[name]
    check(function, [(X, n) for n in numbers], traces=traces)


def test_numbers_in_containers_and_keywords():
    def function(x, pair, *, scale, more):
        return x * pair[0] + V(x) * pair[1] * scale, x * more["n"]

    static = sdbr.static_graph(function, on_dynamic="raise")
    for i in range(1, 8):
        args, kwargs = (X, (i, 0.5 * i)), {"scale": 2 * i, "more": {"n": i, "same": 3}}
        assert_same(static(*args, **kwargs), function(*args, **kwargs), i)
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (2, 5)


def test_shapes_in_turn_with_a_number_that_scales():
    def function(x, n):
        return F.sum(V(x) * n)

    static = sdbr.static_graph(function)
    for i in range(1, 13):
        x = X[: 1 + i % 3]
        assert_near(static(x, i).array, function(x, i).array, RESULTS, f"call {i}")
    assert static.schedule_manager.statistics.replays >= 6
    assert len(static.schedule_manager.runners) == 3


def test_whole_steps_with_a_number_that_scales():
    class Scaled(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l = chainer.links.Linear(4, 2, initialW=0.1)

        def forward(self, x, n):
            return F.sum(self.l(x) ** 2) / n

    weights = []
    for wrapped in (False, True):
        model = sdbr.static_graph(Scaled()) if wrapped else Scaled()
        optimizer = chainer.optimizers.SGD(0.01)
        optimizer = (sdbr.static_optimizer(optimizer) if wrapped else optimizer).setup(model)
        for n in range(3, 12):
            optimizer.update(model, X, n)
        weights.append(model.l.W.array)
    assert_near(weights[1], weights[0], RESULTS, "weights")
    statistics = model.schedule_manager.statistics
    assert statistics.traces == 2 and statistics.steps == 7


def test_what_the_call_keeps_of_a_number_is_pythons():
    kept = []

    class Keeping(chainer.Link):
        def forward(self, x, n):
            self.last = n
            kept[:] = [n]
            return x * n

    link = sdbr.static_graph(Keeping())
    for n in range(1, 5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sdbr.SdbrWarning)
            link(X, n)
        assert type(link.last) is type(kept[0]) is int
        assert link.last == kept[0] == n


# --- what users are told ------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("function", "numbers", "texts"),
    [
        (lambda x, c: x * len(f"{c}"), [0.1 * i for i in range(9)], ["-> 0.4 (used as it is at "]),
        (lambda x, n: x * len(range(n)), range(1, 10), ["argument 1: 7 -> 8. A number may change"]),
        (
            lambda x, c: F.elu(V(x), c),
            [np.float32(i) for i in range(9)],
            ["test_num"] if BY_VALUE else ["np.float32(", "test_num"],
        ),
    ],
    ids=["float", "whole", "float32"],
)
def test_the_warning_names_the_argument(function, numbers, texts):
    static = sdbr.static_graph(function)
    with pytest.warns(sdbr.SdbrWarning, match="keeps changing: argument 1: ") as caught:
        for c in numbers:
            static(X, c)
    text = str(caught[0].message)
    assert all(part in text for part in [*texts, "arithmetic", "a shape, an index, a text"])
