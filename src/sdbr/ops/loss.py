"""Losses, evaluation, and picking by label."""

from sdbr.ops.op import Rows

row = Rows()

# --- losses and evaluation ----------------------------------------------------------------------
row('softmax_cross_entropy', 'x:T t:I w:T*', 'loss:T lse:T coeff:T',
    'lse = log(sum(exp(x), 1)); coeff = 1 / count; loss = -sum(w[t] * (x[t] - lse) * (t != ignore_label)) * coeff; '
    'x[outer, c, inner], t[outer, inner], lse[outer, inner], optional class weights w[c], loss scalar, coeff scalar. '
    'count: number of valid labels (at least 1) when normalize, else outer. IndexError for labels outside [-c, c)'
    ' apart from ignore_label, which picks class 0', ints='normalize ignore_label')  # fmt: skip
row('softmax_cross_entropy_grad', 'x:T t:I lse:T coeff:T gloss:T w:T*', 'gx:T',
    'gx = (exp(x - lse) - onehot(t)) * w[t] * (t != ignore_label) * (gloss * coeff); gloss scalar',
    ints='ignore_label', inplace=(0,))  # fmt: skip
row('softmax_cross_entropy_no_reduce', 'x:T t:I w:T*', 'loss:T lse:T',
    'loss[outer, inner] = -w[t] * (x[t] - lse) * (t != ignore_label)', ints='ignore_label')  # fmt: skip
row('softmax_cross_entropy_no_reduce_grad', 'x:T t:I lse:T gloss:T w:T*', 'gx:T',
    'gx = (exp(x - lse) - onehot(t)) * w[t] * (t != ignore_label) * gloss; gloss[outer, inner]', ints='ignore_label', inplace=(0,))  # fmt: skip
row('sigmoid_cross_entropy', 'x:T t:I', 'loss:T count:T',
    'l = (t != -1) * (x * (t - (x >= 0)) - log1p(exp(-abs(x)))); loss = -sum(l) / count; count = number of t != -1 '
    '(at least 1) when normalize, else batch size; 1-D', ints='normalize batch')  # fmt: skip
row('sigmoid_cross_entropy_grad', 'x:T t:I count:T gloss:T', 'gx:T',
    'gx = gloss * (t != -1) * (sigmoid(x) - t) / count; gloss scalar')  # fmt: skip
row('sigmoid_cross_entropy_no_reduce', 'x:T t:I', 'loss:T',
    'loss = -(t != -1) * (x * (t - (x >= 0)) - log1p(exp(-abs(x))))')  # fmt: skip
row('sigmoid_cross_entropy_no_reduce_grad', 'x:T t:I gloss:T', 'gx:T',
    'gx = gloss * (t != -1) * (sigmoid(x) - t)')  # fmt: skip
row('mean_squared_error', 'x:T y:T', 'loss:T', 'loss = ((x - y) ** 2).sum() / x.size; C-contiguous, loss scalar')  # fmt: skip
row(
    "mean_squared_error_grad",
    "x:T y:T gloss:T",
    "gx:T",
    "gx = (x - y) * (2 * gloss / x.size)",
)
row("mean_absolute_error", "x:T y:T", "loss:T", "loss = abs(x - y).sum() / x.size")
row(
    "mean_absolute_error_grad",
    "x:T y:T gloss:T",
    "gx:T",
    "gx = sign(x - y) * (gloss / x.size)",
)
row('accuracy', 'x:T t:I', 'y:T',
    'y = mean(x.argmax(1) == t), with has_ignore over t != ignore_label (0 when there is none); x[outer, c, inner], '
    't[outer, inner]', ints='has_ignore ignore_label')  # fmt: skip

row(
    "select_item",
    "x:T t:I",
    "y:T",
    "y = x[arange(n), t]; x[n, c], t[n]; IndexError outside [-c, c)",
)
row("select_item_grad", "t:I gy:T", "gx:T", "gx = 0; gx[arange(n), t] = gy; gx[n, c]")
row("negate_item", "x:T t:I", "y:T", "y = x; y[arange(n), t] *= -1; x[n, c], t[n]; IndexError outside [-c, c)")  # fmt: skip

row('argmax', 'x:T', 'y:I', 'y = x.argmax(1), the first of the largest, or the first NaN; x[outer, c, inner], y[outer, inner] '
    'int32')  # fmt: skip

ROWS = row.rows
