"""Data movement."""

from sdbr.program.op import Rows

row = Rows()

# --- data movement -----------------------------------------------------------------------------
row('copy', 'x:A', 'y:A', 'y[...] = x (same dtype; any strides, so transposes and broadcasts too)', family='data',
    inplace=(0,))  # fmt: skip
row("fill", "", "y:A", "y[...] = value; real dtypes", floats="value", family="data")
row("cast", "x:A", "y:A", "y[...] = x.astype(y.dtype); real dtypes", family="data")

ROWS = row.rows
