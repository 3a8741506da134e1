"""Comparisons, and arithmetic of integers and truth values."""

from sdbr.ops.op import Rows

row = Rows()

# --- any strides, stride 0 where an operand is broadcast; `kind` counts from 0 -------------------
row('compare', 'x:A y:A', 'z:A', 'z = x == y, !=, <, <=, > or >= y, by `kind`; x and y of one dtype out of float32, '
    'float64, int32, int64; z bool', ints='kind')  # fmt: skip
row('integer', 'x:A y:A', 'z:A', 'z = x + y, -, *, maximum, minimum, &, | or ^ y, by `kind`; all of one dtype out of '
    'int32, int64 and, for the last three, bool; sums and products wrap around', ints='kind')  # fmt: skip

ROWS = row.rows
