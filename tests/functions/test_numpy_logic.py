"""NumPy calls of user code on truth values, integers and mixed dtypes: replayed without Python."""

from __future__ import annotations

import sdbr

import chainer.functions as F
import numpy as np
import pytest

from tests.tolerances import ROUNDINGS

CALLS = {
    "comparisons": lambda x, t: (x > 0.5) | ((x <= -0.25) & ~(x == 0)),
    "comparison of integers": lambda x, t: (t != -1) ^ (t >= 2),
    "comparison of dtypes": lambda x, t: x < t,
    "logical functions": lambda x, t: np.logical_and(x > 0, np.logical_not(t > 1)),
    "mask as a number": lambda x, t: (t != -1) * x,
    "mask as a float": lambda x, t: (t != -1).astype("f") - 1,
    "number of truths": lambda x, t: (x > 0).sum(),
    "number of truths along an axis": lambda x, t: (x > 0).sum(axis=1),
    "share of truths": lambda x, t: (x > 0).mean(),
    "sums": lambda x, t: np.sum(x, axis=(0, 1), keepdims=True) + x.sum(1, keepdims=True),
    "mean and extremes": lambda x, t: x.mean(0) + x.max(axis=0) - np.min(x, axis=0),
    "arithmetic of integers": lambda x, t: (t * 3 + 1) - t * t,
    "largest of integers": lambda x, t: np.maximum(t, 0) + np.minimum(t, np.int32(1)),
    "bits": lambda x, t: (t & 3) | 4,
    "clip": lambda x, t: x.clip(-0.5, 0.5),
    "clip of integers": lambda x, t: np.clip(t, 0, 1),
    "clip from below": lambda x, t: np.clip(x, 0, None),
    "where": lambda x, t: np.where(t > 0, x, 0.5),
    "where of integers": lambda x, t: np.where(x > 0, t, -1),
    "stack": lambda x, t: np.stack([x > 0, t > 0], 1),
    "concatenate": lambda x, t: np.concatenate([x, x * 2], axis=1),
    "integers and floats": lambda x, t: t / 4 + x,
}


def inputs(step: int):
    rng = np.random.default_rng(step)
    x = np.round(rng.standard_normal((4, 5)) * 4).astype("f") / 4
    x[step % 4, 0] = np.nan if step > 2 else 0
    return x, rng.integers(-1, 4, (4, 5)).astype("i4")


@pytest.mark.parametrize("backend", ["cython", "numpy"])
@pytest.mark.parametrize("name", CALLS)
def test_replayed_natively(name, backend):
    call = CALLS[name]

    def function(x, t):
        return call(x, t), F.identity(x)

    static = sdbr.static_graph(function, backend=backend, on_dynamic="raise")
    for step in range(5):
        x, t = inputs(step)
        got, want = static(x, t)[0], call(x, t)
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, ROUNDINGS)
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays, statistics.python_ops) == (1, 4, 0)


REFUSED = {
    "unsigned 64 bits": lambda x, t: t.astype("u8") > 2,
    "float16": lambda x, t: x.astype("e") > 0,
    "a number of another dtype": lambda x, t: t * 2.5,
    "a dtype": lambda x, t: np.sum(x, dtype="d"),
    "sum of integers": lambda x, t: t.sum(),
    "bounds that are arrays": lambda x, t: np.clip(x, t, 3),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_left_to_numpy_is_right(name):
    call = REFUSED[name]
    static = sdbr.static_graph(lambda x, t: (call(x, t), F.identity(x)), on_dynamic="raise")
    for step in range(3):
        x, t = inputs(step)
        got, want = static(x, t)[0], call(x, t)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, ROUNDINGS)


def test_integers_beyond_their_dtype_wrap_around():
    static = sdbr.static_graph(lambda t: F.identity(t) * 2 + 1, on_dynamic="raise")
    for step in range(3):
        t = np.array([2**31 - 1, -(2**31), step], np.int32)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(static(t).array, t * np.int32(2) + np.int32(1))
    assert static.schedule_manager.statistics.python_ops == 0
