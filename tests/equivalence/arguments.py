"""Arguments of the cases: callables ``(rng, dtype) -> array``."""

from __future__ import annotations

import numpy as np


def N(*shape):
    """Normal numbers."""
    return lambda rng, dtype: np.asarray(rng.standard_normal(shape), dtype)


def P(*shape):
    """Positive numbers away from zero."""
    return lambda rng, dtype: np.asarray(rng.uniform(0.3, 2, shape), dtype)


def Q(*shape):
    """Few different values, zero and both signs among them: ties."""
    return lambda rng, dtype: np.asarray(rng.integers(-2, 3, shape) / 2, dtype)


def T(n, *shape, ignore=None, low=0, kind=np.int32):
    """Labels in [low, n), about a third of them replaced by `ignore`."""

    def make(rng, dtype):
        t = rng.integers(low, n, shape).astype(kind)
        if ignore is not None and t.size:
            t[rng.random(shape) < 0.3] = ignore
        return t

    return make
