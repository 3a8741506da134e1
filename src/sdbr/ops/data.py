"""Data movement."""

from __future__ import annotations

from sdbr.ops.op import Rows

row = Rows()


row(
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

row(
    "fill",
    "",
    "y:A",
    "y[...] = value; real dtypes",
    lambda value: value,
    floats="value",
    step=True,
    moves=True,
)

row(
    "cast",
    "x:A[s...]",
    "y:A[s...]",
    "y[...] = x.astype(y.dtype); real dtypes",
    lambda x: x,
    again="cheap",
)

ROWS = row.rows
