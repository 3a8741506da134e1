"""Matrix products."""

from sdbr.ops.op import Rows

row = Rows()

# --- matrix products (row-major) ----------------------------------------------------------------
row('linear', 'x:T w:T b:T*', 'y:T',
    'y = act(x @ w.T + b); x[n, k], w[m, k], optional b[m], y[n, m], all C-contiguous; '
    'activation 0 none, 1 relu, 2 sigmoid, 3 tanh', ints='activation')  # fmt: skip
row('gemm', 'a:T b:T', 'c:T',
    'c = op(a) @ op(b) + (c if accumulate else 0); C-contiguous 2-D; op transposes when trans_a / trans_b is 1',
    ints='trans_a trans_b accumulate')  # fmt: skip
row('batch_matmul', 'a:T b:T', 'c:T', 'c[i] = op(a[i]) @ op(b[i]); 3-D, C-contiguous', ints='trans_a trans_b')  # fmt: skip
row('gemm_mask', 'a:T b:T y:T', 'c:T',
    'c = (a @ b) * act\'(y); a[n, m], b[m, k], y[n, k]: output of the activation below, 1 relu, 2 sigmoid, 3 tanh',
    ints='activation')  # fmt: skip

ROWS = row.rows
