"""Data movement."""

from __future__ import annotations

from sdbr.ops.op import Ops

define = Ops()


define(
    "copy",
    "x:S[s...]",
    "y:S[s...]",
    "y[...] = x (same dtype; any strides, so transposes and broadcasts too)",
    lambda x: x,
    inplace=(0,),
    step=True,
    moves=True,
    again="cheap",
)

define(
    "fill",
    "",
    "y:A",
    "y[...] = value; real dtypes",
    lambda value: value,
    floats="value",
    step=True,
    moves=True,
)

define(
    "cast",
    "x:A[s...]",
    "y:A[s...]",
    "y[...] = x.astype(y.dtype); real dtypes",
    lambda x: x,
    again="cheap",
)

OPS = define.ops
