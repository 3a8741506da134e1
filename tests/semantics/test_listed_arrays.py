"""Row 10: arrays in lists, and those that objects give, which NumPy reads without asking them."""

from __future__ import annotations

import collections
import functools
import itertools
import warnings

import sdbr

import chainer
import numpy as np
import pytest
import scipy.linalg
from chainer import functions as F


class Frames:
    """What NumPy makes an array of."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


class Rows:
    """What NumPy takes for a list."""

    def __init__(self, *rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class Named(list):
    """A list of the user's."""


class Mine(np.ndarray):
    """An array of the user's, which NumPy asks before those of the call."""


class Telling(Mine):
    """One that passes on what it is asked."""

    def __array_function__(self, function, types, args, kwargs):
        return super().__array_function__(function, types, args, kwargs)


HELD: list = []
LABELS = np.array(["no", "yes"])
MINE, TELLING = np.ones(3, "f").view(Mine), np.ones(3, "f").view(Telling)
BUFFER = np.zeros(3, "f")


def held(x):
    HELD[:] = [x]
    found = np.sum(HELD)
    HELD.clear()
    return found


def sorted_in_place(x):
    rows = [[x], [-x]]
    rows.sort(key=np.max)
    return rows[1][0].sum()


def added_at(x):
    BUFFER[...] = 0
    np.add.at(BUFFER, [0, 1], [x[0], x[1]])
    return BUFFER.sum()


def under_settings(x):
    with np.errstate(all="ignore"):
        return np.nan_to_num(np.log([x])).sum()


def under_filters(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.nan_to_num(np.log([x])).sum()


def added_into(x):
    y = np.zeros((1, 3), "f")
    np.add([x], [x], out=y)
    return y.sum()


def copied_into(x):
    y = MINE.copy()
    np.copyto(y, x)
    return y[0]


# Positive for an array of positive numbers alone.
REPLAYED = {
    "a sum": lambda x: np.sum([x, x]),
    "the mean of a result": lambda x: np.mean([F.relu(x).array]) - 0.1,
    "a universal function": lambda x: np.add([x], [x])[0][0],
    "with an array": lambda x: np.add(x, [x, x]).sum(),
    "where": lambda x: np.add([x], [x], where=[x > -9], out=np.zeros((1, 3), "f")).sum(),
    "a reduction": lambda x: np.add.reduce([x, x]).sum(),
    "a reduction by name": lambda x: np.add.reduce(array=[x, x]).sum(),
    "of an array by name": lambda x: np.add.reduce(array=x),
    "outer": lambda x: np.multiply.outer([x], [1.0]).sum(),
    "at": added_at,
    "into": added_into,
    "in a tuple": lambda x: np.max(((x,), (x,))),
    "spread": lambda x: np.sum(*[[x, x]]),
    "named": lambda x: np.sum(a=[x, x]),
    "spread names": lambda x, named="a": np.sum(**{named: [x, x]}),
    "a partial": lambda x: functools.partial(np.sum, [x, x])(),
    "a partial's name": lambda x: functools.partial(np.sum, a=[x, x])(),
    "mapped": lambda x: max(map(np.sum, [[x, x]])),
    "mapped over pairs": lambda x: max(map(np.sum, zip([x], [x], strict=True))),
    "spread by itertools": lambda x: max(itertools.starmap(np.sum, [([x, x],)])),
    "accumulated": lambda x: list(itertools.accumulate([[x], [x]], np.add))[1].sum(),
    "a key": lambda x: -sorted([[x, x], [x * 0]], key=np.sum)[0][0].sum() + 0.1 * x.sum(),
    "a key of a list's own": sorted_in_place,
    "an axis": lambda x: np.sum([x, x], axis=np.argmax([x[0], 0]))[0],
    "of an array, by a name": lambda x: getattr(np.add, "reduce")(array=x),  # noqa: B009
    "a deque": lambda x: np.sum(collections.deque([x, x])),
    "a list of the user's": lambda x: np.sum(Named([x, x])),
    "a list of the library's": lambda x: np.sum(collections.UserList([x, x])),
    "a class": lambda x: np.float32([x, x]).sum(),
    "numbers": lambda x: np.mean([x[0], x[1]]),
    "asked whether": lambda x: 1 if np.all([x > 0, x > 0]) else -1,
    "the shape": lambda x: np.shape([x, x])[0] * x.sum(),
    "a truth": lambda x: 1 if np.allclose([x], [np.abs(x)]) else -1,
    "places": lambda x: np.nonzero([x > 0])[0].size - 1,
    "places in a list of truths": lambda x: np.where([x[0] > 0, True])[0].size - 1,
    "values that shape": lambda x: np.unique([x, x])[0],
    "of Chainer's": lambda x: chainer.dataset.concat_examples([x[0], x[1]]).sum(),
}
DYNAMIC = {
    "copied into one of another class": copied_into,
    "beside one of another class": lambda x: np.where(MINE > 0, x, x * 2)[0],
    "appended to one of another class": lambda x: np.append(MINE, x)[3],
    "mapped with one of another class": lambda x: next(map(np.where, [MINE > 0], [x], [x * 2]))[0],
    "computed with one of another class": lambda x: (MINE * x).sum(),
    "made one of another class": lambda x: x.view(Mine).sum(),
    "picked from one of another class": lambda x: MINE[x > 0].size - 1,
    "picked from texts": lambda x: 1 if LABELS[(x > 0).astype(int)][0] == "yes" else -1,
    "selected from texts": lambda x: LABELS[x[:2] > 0].size - 1,
    "asked by a class above": lambda x: np.where(TELLING > 0, x, x * 2)[0],
    "as texts": lambda x: 1 if np.char.mod("%d", x)[0][0] != "-" else -1,
    "a function of the user's": lambda x: np.vectorize(lambda v: v * 2)([x, x]).sum(),
    "one that was there": held,
    "a masked array": lambda x: np.ma.array([x, x]).sum(),
    "of SciPy's": lambda x: scipy.linalg.norm([x]) * np.sign(x[0]),
    "with warnings off": under_settings,
    "with warnings ignored": under_filters,
    "read-only": lambda x: float(np.broadcast_to([x[0]], (2, 1)).flags.writeable) - 1 + x[0],
    "an index": lambda x: np.c_[[x, x]].sum(),
    "an array that an object gives": lambda x: np.sum(Frames(x)),
    "made of it": lambda x: np.asarray(Frames(x)).sum(),
    "in a list": lambda x: np.sum([Frames(x)]),
    "rows that an object gives": lambda x: np.sum(Rows(x, x)),
}


def check(function):
    """Compare 8 calls, in which the sign of the argument changes; return how many replayed."""

    def forward(x):
        number = function(x)
        return (x * 2 if number > 0 else x * 3) + number

    static = sdbr.static_graph(forward)
    for k in (1, -1, 2, -2, 3, -3, 4, -4):
        x = np.full(3, k, "f")
        want, got = forward(x), static(x)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    return static.schedule_manager.statistics.replays


@pytest.mark.parametrize("name", REPLAYED)
def test_arrays_in_lists_are_followed(name):
    assert check(REPLAYED[name]) >= 4


@pytest.mark.parametrize("name", DYNAMIC)
def test_what_nobody_can_follow_is_dynamic(name):
    with pytest.warns(sdbr.SdbrWarning, match="is not static"):
        assert check(DYNAMIC[name]) == 0


FROM_OUTSIDE = {
    "beside one made of nothing": lambda x, a: np.sum([a, np.ones(3, "f")], axis=0),
    "stacked": lambda x, a: np.stack([a, np.ones(3, "f")])[0],
    "beside an argument": lambda x, a: np.sum([a, x], axis=0),
    "by itertools": lambda x, a: next(itertools.starmap(np.asarray, [([a],)]))[0],
    "places": lambda x, a: np.nonzero((a > 2, a > 1))[0].size,
}


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("name", FROM_OUTSIDE)
def test_arrays_from_outside_count_though_replays_read_them_as_well(name):
    box = Frames(np.array([1, 2, 3], "f"))
    function = lambda x: x * box.array + FROM_OUTSIDE[name](x, box.array)  # noqa: E731
    static = sdbr.static_graph(function)
    for i in range(8):
        box.array += i // 5
        np.testing.assert_array_equal(static(np.ones(3, "f")), function(np.ones(3, "f")))
    assert static.schedule_manager.statistics.replays >= 2


def test_arrays_from_outside_that_an_object_gives_are_compared():
    box = Frames(np.ones(3, "f"))
    static = sdbr.static_graph(lambda x: x * np.sum(box))
    for k in (1, 1, 1, 2, 2, 2):
        box.array = np.full(3, k, "f")
        np.testing.assert_array_equal(static(np.ones(3, "f")), np.full(3, 3 * k, "f"))
    assert static.schedule_manager.statistics.replays >= 2


def test_errors_of_lists_are_those_of_numpy():
    function = lambda x: np.add([x], [[x, x]], bad=1)  # noqa: E731
    with pytest.raises(TypeError) as want:
        function(np.ones(3, "f"))
    static = sdbr.static_graph(function)
    with pytest.raises(TypeError) as got:
        static(np.ones(3, "f"))
    assert str(got.value) == str(want.value)
