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


def U(low, high, *shape):
    """Uniform numbers between two bounds."""
    return lambda rng, dtype: np.asarray(rng.uniform(low, high, shape), dtype)


def D(*shape):
    """Different numbers, no two closer than 0.1: one maximum, wherever one looks."""

    def make(rng, dtype):
        n = int(np.prod(shape))
        return np.asarray((rng.permutation(n).reshape(shape) - n / 2) * 0.1 + 0.03, dtype)

    return make


def B(*shape):
    """Booleans."""
    return lambda rng, dtype: rng.random(shape) < 0.5


def I(low, high, *shape, kind=np.int32):  # noqa: E743
    """Integers in [low, high)."""
    return lambda rng, dtype: rng.integers(low, high, shape).astype(kind)


def M(*shape):
    """Square matrices far from singular."""

    def make(rng, dtype):
        return np.asarray(rng.uniform(-0.5, 0.5, shape) + 2 * np.eye(shape[-1]), dtype)

    return make


def SPD(n):
    """A symmetric positive definite matrix."""

    def make(rng, dtype):
        a = rng.standard_normal((n, n))
        return np.asarray(a @ a.T + n * np.eye(n), dtype)

    return make


def PERM(n):
    """A permutation of n indices."""
    return lambda rng, dtype: rng.permutation(n).astype(np.int32)


def ROIS(n, size, scale=1.0):
    """Regions (y_min, x_min, y_max, x_max) of an image of `size` pixels each way."""

    def make(rng, dtype):
        low = rng.uniform(0, size * 0.4, (n, 2))
        high = low + rng.uniform(size * 0.3, size * 0.55, (n, 2))
        return np.asarray(np.concatenate([low, high], axis=1) / scale, dtype)

    return make


def SIGN(*shape):
    """Plus or minus one, as integers."""
    return lambda rng, dtype: (rng.integers(0, 2, shape) * 2 - 1).astype(np.int32)


def H(*shape):
    """Normal numbers in float16, whatever the others are."""
    return lambda rng, dtype: np.asarray(rng.standard_normal(shape), np.float16)


def array_of(x):
    """The array of a Variable; an array as it is."""
    return getattr(x, "array", x)
