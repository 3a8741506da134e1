"""Ops that draw."""

from sdbr.ops.op import Rows

row = Rows()

# --- random ------------------------------------------------------------------------------------
row('dropout', 'x:T', 'y:T mask:T',
    'mask = (rand(*x.shape) >= ratio) * x.dtype.type(1 / (1 - ratio)); y = x * mask; draws one double per element '
    'of x in C order; x, y, mask C-contiguous', floats='ratio', effect=True)  # fmt: skip
row('keep_mask', '', 'mask:T', 'mask = rand(*mask.shape) >= ratio, as 1 or 0; C-contiguous', floats='ratio', effect=True)  # fmt: skip
row('uniform', '', 'y:T', 'y = uniform(low, high, y.shape); C-contiguous', floats='low high',
    effect=True)  # fmt: skip

ROWS = row.rows
