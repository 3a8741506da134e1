"""Ops that draw."""

from __future__ import annotations

from sdbr.ops.op import Ops

import numpy as np

Array = np.ndarray
define = Ops()


@define(
    "dropout",
    "x:T[s...]",
    "y:T[s...] mask:T[s...]",
    "mask = (rand(*x.shape) >= ratio) * x.dtype.type(1 / (1 - ratio)); y = x * mask; draws "
    "one double per element of x in C order; x, y, mask C-contiguous",
    floats="ratio",
    effect=True,
    draws=True,
)
def dropout(x: Array, ratio: float):
    """Output and scaled mask, drawn from NumPy's global generator."""
    mask = (np.random.rand(*x.shape) >= ratio) * x.dtype.type(1 / (1 - ratio))
    return x * mask, mask


@define(
    "keep_mask",
    "",
    "mask:T",
    "mask = rand(*mask.shape) >= ratio, as 1 or 0; C-contiguous",
    floats="ratio",
    direct=True,
    effect=True,
    draws=True,
)
def keep_mask(ins, outs, attributes) -> None:
    """1 with probability ``1 - ratio``, else 0."""
    outs[0][...] = np.random.rand(*outs[0].shape) >= attributes["ratio"]


@define(
    "uniform",
    "",
    "y:T",
    "y = uniform(low, high, y.shape); C-contiguous",
    floats="low high",
    direct=True,
    effect=True,
    draws=True,
)
def uniform(ins, outs, attributes) -> None:
    """Uniform numbers in ``[low, high)``."""
    outs[0][...] = np.random.uniform(attributes["low"], attributes["high"], outs[0].shape)


OPS = define.ops
