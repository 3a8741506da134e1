"""Numbers of the arguments beside arrays of CuPy: each replay reads them anew."""

import sdbr

import chainer
import cupy
import numpy as np
import pytest

X = np.random.RandomState(0).randn(3, 4).astype("f")
V = chainer.Variable


def written(x, c):
    x = x.copy()
    x[0] = c
    x *= c
    return x


#: name -> function of an array and a number, whether whole numbers are free, Python ops
CASES = {
    "operators": (lambda x, c: (x * c, c * x, x + c, c - x, x / c, x > c), True, 0),
    "variables": (lambda x, c: ((V(x) * c).array, (c - V(x)).array), True, 0),
    "written": (written, False, 0),
    "clip": (lambda x, c: cupy.clip(x, -c, c), False, 1),
    "where": (lambda x, c: cupy.where(x > 0, x, c), False, 1),
    "full": (lambda x, c: cupy.full(x.shape, c, "f") * x, False, 1),
}


def on_host(thing):
    return [cupy.asnumpy(x) for x in (thing if isinstance(thing, tuple) else (thing,))]


@pytest.mark.filterwarnings("ignore:.*five of the last eight:sdbr.SdbrWarning")
@pytest.mark.parametrize("kind", [float, np.float64, np.float32, int])
@pytest.mark.parametrize("name", CASES)
def test_numbers_beside_arrays(name, kind):
    function, free, python = CASES[name]
    static = sdbr.static_graph(function, on_dynamic="raise")
    numbers = range(1, 7) if kind is int else [kind(0.1 * i) for i in range(1, 7)]
    for i, c in enumerate(numbers):
        x = cupy.asarray(X + np.float32(i))
        for have, want in zip(on_host(static(x, c)), on_host(function(x, c)), strict=True):
            np.testing.assert_array_equal(have, want, f"call {i}", strict=True)
    statistics = static.schedule_manager.statistics
    traces = 1 if kind is not int else 2 if free else 6
    assert (statistics.traces, statistics.replays) == (traces, 6 - traces)
    if kind is not np.float32:  # of its own dtype, which some of these take natively
        assert statistics.python_ops == python * statistics.replays
