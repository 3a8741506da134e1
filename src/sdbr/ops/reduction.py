"""Reductions, and ops on rows along one axis."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.ops.op import Layout, Ops

import numpy as np

Array = np.ndarray
define = Ops()


def _of_something(
    ins: Sequence[Layout], outs: Sequence[Layout], ints: Sequence[int], floats: Sequence
) -> str:
    """There is no largest or smallest of nothing."""
    outer, n, inner = ins[0][1]
    return "no largest or smallest of nothing" if n == 0 < outer * inner else ""


# --- reductions: x[outer, n, inner] C-contiguous -> y[outer, inner] ------------------------------
define(
    "sum",
    "x:T[outer,n,inner]",
    "y:T[outer,inner]",
    "y = x.sum(axis=1)",
    lambda x: x.sum(axis=1),
    cut="outer",
)

define(
    "mean",
    "x:T[outer,n,inner]",
    "y:T[outer,inner]",
    "y = x.sum(axis=1) / n",
    lambda x: x.sum(axis=1) / x.shape[1],
    cut="outer",
)

define(
    "max",
    "x:T[outer,n,inner]",
    "y:T[outer,inner]",
    "y = x.max(axis=1)",
    lambda x: x.max(axis=1),
    cut="outer",
    rule=_of_something,
)

define(
    "min",
    "x:T[outer,n,inner]",
    "y:T[outer,inner]",
    "y = x.min(axis=1)",
    lambda x: x.min(axis=1),
    cut="outer",
    rule=_of_something,
)


# --- rows: x[outer, n, inner] C-contiguous, along axis 1 -----------------------------------------
@define(
    "softmax",
    "x:T[outer,n,inner]",
    "y:T[outer,n,inner]",
    "y = exp(x - x.max(1)) / exp(x - x.max(1)).sum(1)",
    inplace=(0,),
    cut="outer",
)
def softmax(x: Array) -> Array:
    """``exp(x) / exp(x).sum(1)`` along axis 1, shifted by the largest element."""
    e = np.exp(x - x.max(axis=1, keepdims=True, initial=-np.inf))
    return e / e.sum(axis=1, keepdims=True)


define(
    "softmax_grad",
    "y:T[outer,n,inner] gy:T[outer,n,inner]",
    "gx:T[outer,n,inner]",
    "gx = y * (gy - (y * gy).sum(1))",
    lambda y, gy: y * (gy - (y * gy).sum(axis=1, keepdims=True)),
    inplace=(0, 1),
    cut="outer",
)


@define(
    "log_softmax",
    "x:T[outer,n,inner]",
    "y:T[outer,n,inner]",
    "y = x - logsumexp(x, 1)",
    inplace=(0,),
    cut="outer",
)
def log_softmax(x: Array) -> Array:
    """``x - logsumexp(x, 1)`` along axis 1."""
    top = x.max(axis=1, keepdims=True, initial=-np.inf)
    return x - (np.log(np.exp(x - top).sum(axis=1, keepdims=True)) + top)


define(
    "log_softmax_grad",
    "y:T[outer,n,inner] gy:T[outer,n,inner]",
    "gx:T[outer,n,inner]",
    "gx = gy - exp(y) * gy.sum(1)",
    lambda y, gy: gy - np.exp(y) * gy.sum(axis=1, keepdims=True),
    inplace=(0, 1),
    cut="outer",
)

OPS = define.ops
