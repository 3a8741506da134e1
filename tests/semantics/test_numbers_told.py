"""Row 11: numbers where they cannot be read anew; none of them is frozen there by accident."""

from __future__ import annotations

import contextlib
import decimal
import math
import pickle
import statistics
import struct
import types

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F

X = np.random.RandomState(0).randn(3, 4).astype("f")
AGAIN = [0.5, 0.5, 0.25, 0.5, 2.0, 2.0, 0.25]


def assert_same(got, want):
    assert type(got) is type(want)
    if isinstance(want, dict):
        assert_same(list(got.items()), list(want.items()))
    elif isinstance(want, (tuple, list)):
        for a, b in zip(got, want, strict=True):
            assert_same(a, b)
    else:
        np.testing.assert_array_equal(got, want, strict=True)


def check(function, numbers):
    """Every call is that of the plain function; the statistics tell how it came about."""
    static = sdbr.static_graph(function)
    for c in numbers:
        assert_same(static(X, c), function(X, c))
    return static.schedule_manager.statistics


# --- errors that the call catches -----------------------------------------------------------------
def inverse(x, c):
    try:
        return x * (1 / c)
    except ZeroDivisionError:
        return x * 100


def logarithm(x, c):
    try:
        return x * math.log(c)
    except ValueError:
        return -x


def tried(x, c):
    try:
        1 / c
    except ZeroDivisionError:
        return -x
    return x


def suppressed(x, c):
    sign = -1.0
    with contextlib.suppress(ValueError):
        math.log(c)
        sign = 1.0
    return x * sign


@pytest.mark.parametrize("function", [inverse, logarithm, tried, suppressed])
@pytest.mark.parametrize("kind", [float, int])
def test_an_error_of_a_number_is_one_of_that_number(function, kind):
    numbers = [3, 2, 0, 3, 4, 5, 0, 0, 6, 7, 8]
    statistics = check(function, list(map(kind, numbers)))
    assert statistics.replays >= 5 and statistics.define_by_run_calls == 0


# --- complex numbers, beside which Python asks no float for its value -----------------------------
COMPLEX = {
    "before": lambda x, c: x * abs(1j * c),
    "after": lambda x, c: x * (c * 2j).imag,
    "less": lambda x, c: x * (c - 1j).real,
    "equal": lambda x, c: x if c == 0.25 + 0j else -x,
    "made": lambda x, c: x * complex(c, 1).real,
    "made of it": lambda x, c: x * (c + complex(x.shape[0])).real,
}


@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.parametrize("kind", [float, int, np.float64])
def test_complex_numbers(name, kind):
    with np.errstate(all="ignore"):
        statistics = check(COMPLEX[name], [kind(c) for c in (*AGAIN, 1, 2, 3, 2)])
    assert statistics.replays > 0 and statistics.define_by_run_calls == 0


class Reached(chainer.Link):
    """Has what takes floats unasked, where traced code may find it."""

    def __init__(self):
        super().__init__()
        self.z = 2 + 1j
        self.all = {"of": [0.5, 1j]}
        self.inside = types.SimpleNamespace(z=1 - 2j)
        self.least = decimal.Decimal("0.375")
        self.packed = struct.Struct("d")
        self.normal = statistics.NormalDist()
        self.log = math.log


REACHED = {
    "attribute": lambda link, c: abs(link.z * c),
    "container": lambda link, c: abs(link.all["of"][1] + c),
    "object": lambda link, c: abs(link.inside.z / c),
    "made": lambda link, c: abs(complex(1, 2) * c),
    "decimal": lambda link, c: 1 if link.least < c else 2,
    "struct": lambda link, c: link.packed.unpack(link.packed.pack(c))[0],
    "distribution": lambda link, c: link.normal.cdf(c),
    "function": lambda link, c: link.log(c),
}


@pytest.mark.parametrize("name", REACHED)
@pytest.mark.parametrize("kind", [float, np.float64])
def test_what_takes_floats_in_links(name, kind):
    """No method of the float is asked there."""
    link, function = Reached(), REACHED[name]
    statistics = check(lambda x, c: x * function(link, c), list(map(kind, AGAIN)))
    assert statistics.replays > 0 and statistics.define_by_run_calls == 0


def test_complex_arguments():
    static = sdbr.static_graph(lambda x, c, z: x * abs(z * c))
    x = np.ones(3, "f")
    for c in AGAIN:
        for z in (1j, 2 + 1j):
            np.testing.assert_array_equal(static(x, c, z), x * abs(z * c))
    assert static.schedule_manager.statistics.replays > 0


#: Those that call functions of `math`, by whatever name: these are watched.
WATCHED = ("distribution", "function")


@pytest.mark.parametrize("name", [name for name in REACHED if name != "made"])
def test_a_number_of_the_call_that_is_taken(name):
    """It has left its array, so the call is dynamic where nobody follows it."""
    link, function = Reached(), REACHED[name]
    static = sdbr.static_graph(lambda x: x * function(link, float(x[0])), on_dynamic="fallback")
    for k in range(5):
        x = np.full(3, k + 1, "f")
        np.testing.assert_array_equal(static(x), x * function(link, float(x[0])))
    statistics = static.schedule_manager.statistics
    assert (statistics.replays > 0, statistics.define_by_run_calls > 0) == (
        name in WATCHED, name not in WATCHED
    )  # fmt: skip


# --- arrays made of numbers alone, changed where nobody sees it -----------------------------------
def flat(y, c):
    y.shape = (2, 2)


def real(y, c):
    y.real = c


def divided(y, c):
    np.divmod(y, 0.3, out=(y, y.copy()))


def swapped(y, c):
    y.byteswap(inplace=True)


@pytest.mark.parametrize("change", [flat, real, divided, swapped])
def test_an_array_of_numbers_that_is_changed_unseen_is_dynamic(change):
    def function(x, c):
        y = np.array([c, 1.0, 0.25, c * 2])
        change(y, c)
        return y + x[:2, :2] if change is flat else y + x

    with pytest.warns(sdbr.SdbrWarning, match="in place"):
        statistics = check(function, AGAIN)
    assert statistics.replays == 0


def test_a_shape_that_is_a_float_belongs_to_the_key():
    with np.errstate(all="ignore"):
        statistics = check(lambda x, c: np.repeat(x, c), [1.0, 2.0, 1.0, 2.0, 3.0, 2.0])
    assert (statistics.traces, statistics.replays) == (3, 3)


# --- what is told of them -------------------------------------------------------------------------
TOLD = {
    "keys": lambda x, c: {c: x, (c, 1): [c], "rest": {c: 1}},
    "pickled": lambda x, c: x * pickle.loads(pickle.dumps(c)),
    "class": lambda x, c: (x + 0, c.__class__.__name__),
    "of NumPy": lambda x, c: x if isinstance(c, np.floating) else -x,
    "of Python": lambda x, c: x if isinstance(c, float) else -x,
}


@pytest.mark.parametrize("name", TOLD)
@pytest.mark.parametrize("kind", [float, np.float64])
def test_what_is_told_of_a_number_is_told_in_define_by_run(name, kind):
    function = TOLD[name]
    static = sdbr.static_graph(function)
    for c in map(kind, AGAIN):
        got, want = static(X, c), function(X, c)
        assert_same(got, want)
        if name == "keys":
            kinds = [type(k[0]) if isinstance(k, tuple) else type(k) for k in got]
            assert kinds == [kind, kind, str] and [type(k) for k in got["rest"]] == [kind]
    assert static.schedule_manager.statistics.replays >= 3


# --- whole numbers that a call computes with, and that decide about its shape ---------------------
IN_THE_KEY = {
    "axis": lambda x, k: F.sum(x, axis=k) * (k + 1),
    "slice": lambda x, k: (x[: k + 1] * 2, k),
    "index": lambda x, k: x[k] * (k + 0.5),
    "range": lambda x, k: sum(x * j for j in range(k + 1)) / (k + 1),
}


@pytest.mark.parametrize("name", IN_THE_KEY)
def test_whole_numbers_in_the_key_are_computed_with(name):
    function = IN_THE_KEY[name]
    static = sdbr.static_graph(function, on_dynamic="raise")
    for k in (0, 1, 0, 1, 1, 0, 0, 1, 1, 1):
        got, want = static(X, k), function(X, k)
        if isinstance(want, chainer.Variable):
            got, want = got.array, want.array
        assert_same(got, want)
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (2, 8)


# --- floats in arrays of whole numbers ------------------------------------------------------------
def set_first(x, c):
    y = x.astype("i")
    y[0] = c
    return y


def filled(x, c):
    y = x.astype("u1")
    y.fill(c)
    return y


@pytest.mark.parametrize("function", [set_first, filled])
@pytest.mark.parametrize("kind", [float, np.float64, np.float32])
def test_a_float_that_fits_no_whole_number_is_refused_as_by_numpy(function, kind):
    static = sdbr.static_graph(function)
    for c in map(kind, (1.5, 2.5, np.nan, np.inf, 1.5, 3e9, 2.5)):
        try:
            want = function(X, c)
        except (ValueError, OverflowError) as error:
            with pytest.raises(type(error)):
                static(X, c)
        else:
            assert_same(static(X, c), want)
