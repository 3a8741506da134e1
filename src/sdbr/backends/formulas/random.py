"""Formulas of ops that draw from NumPy's global generator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def keep_mask(ins, outs, attributes) -> None:
    """1 with probability ``1 - ratio``, else 0."""
    outs[0][...] = np.random.rand(*outs[0].shape) >= attributes["ratio"]


def uniform(ins, outs, attributes) -> None:
    """Uniform numbers in ``[low, high)``."""
    outs[0][...] = np.random.uniform(attributes["low"], attributes["high"], outs[0].shape)


FORMULAS: dict[str, Callable] = {}
DIRECT: dict[str, Callable] = {"keep_mask": keep_mask, "uniform": uniform}
