"""Cells of recurrent networks."""

from sdbr.ops.op import Rows

row = Rows()

# --- cells --------------------------------------------------------------------------------------
row('lstm', 'c_prev:T x:T', 'gates:T c:T h:T',
    'gates = tanh(x[:, 0]), sigmoid(x[:, 1:]), that is a, i, f, o; c = a * i + f * c_prev; h = o * tanh(c); '
    'x[m, 4], c[m] of m cells, C-contiguous', inplace=(1,))  # fmt: skip
row('lstm_grad', 'gates:T c_prev:T c:T g:T*', 'gx:T gc_prev:T',
    'gx and gc_prev of `lstm` from gc (when has_gc) and gh (when has_gh)', ints='has_gc has_gh',
    inplace=(0,))  # fmt: skip
row('slstm', 'c1:T c2:T x1:T x2:T', 'c:T h:T',
    'c = a1 * i1 + a2 * i2 + f1 * c1 + f2 * c2; h = sigmoid(x1[:, 3] + x2[:, 3]) * tanh(c), with a, i, f of each x as in '
    '`lstm`')  # fmt: skip
row('slstm_grad', 'c1:T c2:T x1:T x2:T c:T g:T*', 'gx1:T gx2:T gc1:T gc2:T',
    'the gradients of `slstm` from gc (when has_gc) and gh (when has_gh)', ints='has_gc has_gh')  # fmt: skip
row('tree_lstm', 'x:T child:T*', 'c:T h:T',
    'c = tanh(x[:, 0]) * sigmoid(x[:, 1]) + sum over k of sigmoid(x[:, 3 + k]) * child[k]; '
    'h = sigmoid(x[:, 2]) * tanh(c); x[n, 3 + children, cells], child[n, cells]')  # fmt: skip
row('tree_lstm_grad', 'x:T c:T more:T*', 'gx:T gchild:T*',
    'the gradients of `tree_lstm`; after c come the children, then gc (when has_gc) and gh (when has_gh)',
    ints='has_gc has_gh')  # fmt: skip

ROWS = row.rows
