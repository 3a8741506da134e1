"""Other data for the replays: like the first, inside the domain of the function."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass
class Set:
    """The data of one call."""

    xs: list
    gys: list | None
    ggs: list
    params: list


class Data:
    """Data sets by number; 0 is that of the check."""

    def __init__(self, xs, gys, ggs, params):
        params = [None if p is None else p.copy() for p in params]
        self.first = Set(list(xs), None if gys is None else list(gys), list(ggs), params)
        self.change = _same

    def take(self, number: int) -> Set:
        return self.first if number == 0 else self._make(number)

    def settle(self, attempt, first: dict) -> str:
        """Choose the first change under which define-by-run works as it did; its name."""
        for change in (_shuffled, _mirrored, _scaled):
            self.change = change
            try:
                found = [attempt(self.take(1)), attempt(self.take(2))]
            except Exception:
                continue
            if all(_is_finite(f) for f in found) or not _is_finite(first):
                return change.__name__.strip("_")
        self.change = _same
        return "same"

    def _make(self, number: int) -> Set:
        rng = np.random.RandomState(number)
        made: dict[int, np.ndarray] = {}

        def other(x):
            if x is None:
                return None
            if id(x) not in made:  # the same array twice stays the same array twice
                made[id(x)] = like(self.change(x, rng), x)
            return made[id(x)]

        first = self.first
        return Set(
            [other(x) for x in first.xs],
            None if first.gys is None else [_factor(g, rng) for g in first.gys],
            [_factor(g, rng) for g in first.ggs],
            [None if p is None else _scaled(p, rng) for p in first.params],
        )


def _shuffled(x, rng):
    return rng.permutation(x.ravel()).reshape(x.shape) if x.ndim else _scaled(x, rng)


def _mirrored(x, rng):
    return x[::-1] if x.ndim else x


def _scaled(x, rng):
    return np.asarray(x * x.dtype.type(rng.uniform(0.8, 0.98)) if x.dtype.kind == "f" else x)


def _same(x, rng):
    return x


def _factor(g, rng):
    return None if g is None else np.asarray(g * g.dtype.type(rng.uniform(0.5, 2.0)))


def like(new, x):
    """`new` as an array that is contiguous only where `x` is."""
    if x.flags.c_contiguous or not x.size:
        return np.array(new, x.dtype, order="C")
    base = np.empty((*x.shape, 2), x.dtype)
    base[..., 0] = new
    return base[..., 0]


def _is_finite(record: dict) -> bool:
    return all(np.isfinite(a).all() for part in record.values() for a in part if a is not None)
