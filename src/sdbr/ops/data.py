"""Data movement."""

from sdbr.ops.op import Rows

row = Rows()

# --- data movement -----------------------------------------------------------------------------
row('copy', 'x:A', 'y:A', 'y[...] = x (same dtype; any strides, so transposes and broadcasts too)',
    inplace=(0,))  # fmt: skip
row("fill", "", "y:A", "y[...] = value; real dtypes", floats="value")
row("cast", "x:A", "y:A", "y[...] = x.astype(y.dtype); real dtypes")

ROWS = row.rows
