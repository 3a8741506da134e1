"""``cupy.random.Generator``, whose state lies on the device; on NumPy's Philox."""

from __future__ import annotations

import os

import numpy as np

from .. import creation


class Generator:
    """Draws on the current device."""

    def __init__(self, seed=None):
        seed = int.from_bytes(os.urandom(8), "little") if seed is None else seed
        self._drawn = np.random.Generator(np.random.Philox(seed))

    def _filled(self, drawn, dtype, out):
        out = creation.empty(np.shape(drawn), dtype) if out is None else out
        out._host[...] = drawn
        return out

    def random(self, size=None, dtype=np.float64, out=None):
        return self._filled(self._drawn.random(size, dtype), dtype, out)

    def standard_normal(self, size=None, dtype=np.float64, out=None):
        return self._filled(self._drawn.standard_normal(size, dtype), dtype, out)

    def integers(self, low, high=None, size=None, dtype=np.int64, endpoint=False):
        return self._filled(self._drawn.integers(low, high, size, dtype, endpoint), dtype, None)


def default_rng(seed=None):
    return Generator(seed)
