"""The compiled ``concat_examples`` and the quick summaries do what Chainer's own do."""

from __future__ import annotations

from sdbr.compat.speed import ORIGINALS
from sdbr.compat.speed._examples import joined

import chainer
import numpy as np
import pytest
from chainer.dataset import convert

RNG = np.random.RandomState(0)
X = RNG.rand(7, 3, 1, 4).astype("f")
T = np.arange(7, dtype="i")


class Mine(np.ndarray):
    """A class of a user's."""


COPIED = {
    "arrays and labels": list(zip(X, T, strict=True)),
    "rows": list(X[:, 0, 0]),
    "three": [(x, np.float64(t), True) for x, t in zip(X, T, strict=True)],
    "numbers": [(1, 2.0), (3, 4)],
    "mixed numbers": [1, 2.5, np.int8(3)],
    "halves": list(X.astype("e")),
    "flags": list(X > 0.5),
    "complex": list(X.astype("F")),
    "without axes": [np.array(i, "f") for i in range(3)],
    "empty": [np.zeros((0, 3), "f")] * 2,
    "one": [(np.ones((1, 1), "f"),)],
    "nothing": [(), ()],
    "longer tuples": [(1, 2), (3, 4, 5)],
    "read-only": [np.broadcast_to(np.float32(3), (1,))] * 2,
}
OTHERS = {
    "shapes": [np.zeros(3, "f"), np.zeros(4, "f")],
    "dtypes": [np.zeros(3, "f"), np.zeros(3, "d")],
    "dicts": [{"x": x, "t": t} for x, t in zip(X, T, strict=True)],
    "views": list(X.transpose(0, 3, 2, 1)),
    "subclasses": [x.view(Mine) for x in X],
    "texts": ["a", "bc"],
    "lists": [[1, 2], [3, 4]],
    "pairs of lists": [([1, 2], 1), ([3, 4], 2)],
    "objects": [np.array([None]), np.array([1], object)],
    "bytes": list(X.astype(">f4")),
    "an array": X,
    "shorter tuples": [(1, 2), (3,)],
    "an array among numbers": [1, np.zeros(2)],
    "a list among tuples": [(1, 2), [3, 4]],
    "no examples": [],
}


def result(function, *args, **kwargs):
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return type(error), str(error)


def assert_same(one, other):
    assert type(one) is type(other)
    if isinstance(one, tuple):
        assert len(one) == len(other)
        for x, y in zip(one, other, strict=True):
            assert_same(x, y)
    elif isinstance(one, dict):
        assert_same(tuple(one.items()), tuple(other.items()))
    elif isinstance(one, np.ndarray):
        assert (one.dtype, one.shape, one.strides) == (other.dtype, other.shape, other.strides)
        assert one.flags.writeable == other.flags.writeable
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other


@pytest.mark.parametrize("name", [*COPIED, *OTHERS])
def test_same(name):
    batch = COPIED.get(name, OTHERS.get(name))
    for args in ((), (None,), (-1,), ("@numpy",)):
        device = None if not args or args[0] is None else chainer.get_device("@numpy")
        want = result(ORIGINALS["concat_examples"], batch, device)
        assert_same(result(convert.concat_examples, batch, *args), want)
    want = result(ORIGINALS["concat_examples"], batch, None, 5)
    assert_same(result(convert.concat_examples, batch, padding=5), want)


@pytest.mark.parametrize("name", COPIED)
def test_is_compiled(name):
    assert joined(COPIED[name]) is not None


@pytest.mark.parametrize("name", OTHERS)
def test_is_left_to_chainer(name):
    assert (
        result(joined, OTHERS[name]) is None
        or type(joined) is None
        or name in ("an array among numbers",)
    )


def test_results_are_copies():
    x = np.zeros((2, 3), "f")
    (y,) = convert.concat_examples([(row,) for row in x])
    x[...] = 1
    assert not y.any() and y.base is None


@pytest.mark.parametrize(
    "values",
    [
        [np.array(1.5, "f"), np.array(0.1, "f"), np.float32(0.1)],
        [np.float32(1e30), np.float32(2)],
        [np.float64(1), 2, 3.5],
        [np.array(0.1, "e"), np.array(3, "i")],
        [np.nan, np.array(np.inf)],
    ],
)
def test_summaries(values):
    one, other = chainer.reporter.Summary(), chainer.reporter.Summary()
    with np.errstate(all="ignore"):
        for i, value in enumerate(values):
            for weight in (1, i + 0.5, np.float32(2)):
                one.add(value, weight)
                ORIGINALS["add"](other, value, weight)
            for part in ("_x", "_x2", "_n"):
                x, y = getattr(one, part), getattr(other, part)
                assert type(x) is type(y) and np.array_equal(x, y, equal_nan=True)
    assert np.array_equal(one.make_statistics(), other.make_statistics(), equal_nan=True)
