"""Every native function through the decorator: replayed, and no Python op, forward or backward."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest

from .cases import CASES
from .lowering import as_inputs, assert_close, outputs_of
from .test_lowering import TOLERANCES


def _iteration(f, arrays, gradients, seed):
    """Outputs and gradients of one call; gradients come from `gradients`, a generator."""
    np.random.seed(seed)
    xs = as_inputs(arrays)
    with np.errstate(all="ignore"):
        ys = outputs_of(f(*xs))
        for y in ys:
            if y.requires_grad:
                y.grad = gradients.standard_normal(y.shape).astype(y.dtype).reshape(y.shape)
        given = [y for y in ys if y.grad is not None]
        if given:
            chainer.backward(given)
    return [y.array for y in ys], [x.grad if isinstance(x, chainer.Variable) else None for x in xs]


@pytest.mark.parametrize("backend", ["numpy", "cython"])
@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize(("name", "f", "specs"), CASES, ids=[c[0] for c in CASES])
def test_replay(name, f, specs, dtype, backend):
    static = sdbr.static_graph(lambda *xs: f(*xs), backend=backend, on_dynamic="raise")
    tolerance, grad_tolerance = TOLERANCES[dtype]
    for seed in range(4):
        arrays = [make(np.random.default_rng(seed), dtype) for make in specs]
        want = _iteration(f, arrays, np.random.default_rng(seed), seed)
        got = _iteration(static, arrays, np.random.default_rng(seed), seed)
        for y, z in zip(got[0], want[0], strict=True):
            assert_close(y, z, tolerance, "output")
        for g, h in zip(got[1], want[1], strict=True):
            assert (g is None) == (h is None)
            if g is not None:
                assert_close(g, h, grad_tolerance, "gradient")
    statistics = static.schedule_manager.statistics
    # An array that user code makes by itself counts as a constant once a second trace has
    # confirmed it.
    again = statistics.second_traces
    assert again <= 1
    assert (statistics.calls, statistics.replays) == (4, 3 - again)
    assert statistics.python_ops == 0
