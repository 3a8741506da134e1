"""Reductions and row ops along one axis."""

from sdbr.ops.op import Rows

row = Rows()

# --- reductions: x[outer, n, inner] C-contiguous -> y[outer, inner] ------------------------------
row("sum", "x:T", "y:T", "y = x.sum(axis=1)")
row("mean", "x:T", "y:T", "y = x.sum(axis=1) / n")
row("max", "x:T", "y:T", "y = x.max(axis=1)")
row("min", "x:T", "y:T", "y = x.min(axis=1)")

# --- rows: x[outer, n, inner] C-contiguous, along axis 1 -----------------------------------------
row(
    "softmax",
    "x:T",
    "y:T",
    "y = exp(x - x.max(1)) / exp(x - x.max(1)).sum(1)",
    inplace=(0,),
)
row(
    "softmax_grad",
    "y:T gy:T",
    "gx:T",
    "gx = y * (gy - (y * gy).sum(1))",
    inplace=(0, 1),
)
row("log_softmax", "x:T", "y:T", "y = x - logsumexp(x, 1)", inplace=(0,))
row(
    "log_softmax_grad",
    "y:T gy:T",
    "gx:T",
    "gx = gy - exp(y) * gy.sum(1)",
    inplace=(0, 1),
)

ROWS = row.rows
