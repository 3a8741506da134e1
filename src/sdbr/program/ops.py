"""The op table: one row per operation that a program may hold.

Everything that concerns operations is generated from this table or checked
against it: opcodes, dispatch, disassembly, ``docs/ops.md`` and the parity
tests. A row names its operands in order, inputs before outputs; a program
stores them in that order.

Conventions
-----------
* ``T`` is float32 or float64 and is the same for all operands marked ``T``;
  ``I`` is any NumPy integer dtype (labels); ``A`` is any native dtype.
* *elementwise* ops broadcast: every operand row has the shape of the output,
  stride 0 where it is repeated. Reduction-like ops work on canonical shapes
  given in ``doc``; the lowering reshapes (a view) before it emits them.
* ``inplace`` lists the inputs that the first output may share memory with,
  element for element (same shape and strides).
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Op:
    """One row of the op table.

    Attributes
    ----------
    name : str
        Name, as printed by the disassembler.
    opcode : int
        Index of the row.
    inputs, outputs : tuple of str
        Operand names with dtype class, ``'x:T'``; a trailing ``*`` marks the
        one variadic input (zero or more).
    ints, floats : tuple of str
        Names of the integer and float attributes, in order.
    family : str
        ``elementwise``, ``reduction``, ``row``, ``blas``, ``loss``,
        ``random``, ``data``, ``update`` or ``control``.
    inplace : tuple of int
        Inputs whose memory the first output may reuse.
    effect : bool
        True when the op must run even if nobody reads its outputs.
    doc : str
        The formula; NumPy notation.
    """

    name: str
    opcode: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    ints: tuple[str, ...] = ()
    floats: tuple[str, ...] = ()
    family: str = "elementwise"
    inplace: tuple[int, ...] = ()
    effect: bool = False
    doc: str = ""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_rows: list[Op] = []


def _op(
    name, inputs, outputs, doc, ints="", floats="", family="elementwise", inplace=(), effect=False
):
    _rows.append(
        Op(
            name,
            len(_rows),
            _words(inputs),
            _words(outputs),
            _words(ints),
            _words(floats),
            family,
            inplace,
            effect,
            doc,
        )
    )


# --- control -----------------------------------------------------------------------------------
_op('python', 'x:A*', '', 'run object slot `slot`; operands are what it reads and writes', ints='slot n_inputs',
    family='control', effect=True)  # fmt: skip
_op("nop", "", "", "nothing", family="control", effect=True)

# --- data movement -----------------------------------------------------------------------------
_op('copy', 'x:A', 'y:A', 'y[...] = x (same dtype; any strides, so transposes and broadcasts too)', family='data',
    inplace=(0,))  # fmt: skip
_op("fill", "", "y:A", "y[...] = value; real dtypes", floats="value", family="data")
_op("cast", "x:A", "y:A", "y[...] = x.astype(y.dtype); real dtypes", family="data")
_op(
    "select_item",
    "x:T t:I",
    "y:T",
    "y = x[arange(n), t]; x[n, c], t[n]; IndexError outside [-c, c)",
    family="loss",
)
_op(
    "select_item_grad", "t:I gy:T", "gx:T", "gx = 0; gx[arange(n), t] = gy; gx[n, c]", family="loss"
)

# --- elementwise, one input --------------------------------------------------------------------
for _name, _doc in [
    ("negative", "y = -x"),
    ("absolute", "y = abs(x)"),
    ("sign", "y = sign(x)"),
    ("exp", "y = exp(x)"),
    ("log", "y = log(x)"),
    ("sqrt", "y = sqrt(x)"),
    ("square", "y = x * x"),
    ("reciprocal", "y = 1 / x"),
    ("relu", "y = maximum(x, 0)"),
    ("sigmoid", "y = tanh(x * 0.5) * 0.5 + 0.5"),
    ("tanh", "y = tanh(x)"),
]:
    _op(_name, "x:T", "y:T", _doc, inplace=(0,))
for _name, _floats, _doc in [
    ("leaky_relu", "slope", "y = where(x <= 0, slope * x, x)"),
    ("elu", "alpha", "y = where(x <= 0, alpha * expm1(x), x)"),
    ("clipped_relu", "z", "y = minimum(maximum(0, x), z)"),
    ("softplus", "beta", "y = (maximum(bx, 0) + log1p(exp(-abs(bx)))) / beta with bx = beta * x"),
    ("clip", "low high", "y = clip(x, low, high)"),
    ("add_constant", "value", "y = x + value"),
    ("rsub_constant", "value", "y = value - x"),
    ("mul_constant", "value", "y = x * value"),
    ("div_constant", "value", "y = x / value"),
    ("rdiv_constant", "value", "y = value / x"),
    ("pow_constant", "value", "y = x ** value"),
    ("rpow_constant", "value", "y = value ** x"),
]:
    _op(_name, "x:T", "y:T", _doc, floats=_floats, inplace=(0,))

# --- elementwise, two inputs -------------------------------------------------------------------
for _name, _doc in [
    ("add", "z = x + y"),
    ("subtract", "z = x - y"),
    ("multiply", "z = x * y"),
    ("divide", "z = x / y"),
    ("power", "z = x ** y"),
    ("maximum", "z = maximum(x, y)"),
    ("minimum", "z = minimum(x, y)"),
]:
    _op(_name, "x:T y:T", "z:T", _doc, inplace=(0, 1))

# --- elementwise gradients ---------------------------------------------------------------------
for _name, _ins, _floats, _doc in [
    ("relu_grad", "y:T gy:T", "", "gx = gy * (y > 0)"),
    ("leaky_relu_grad", "x:T gy:T", "slope", "gx = where(x <= 0, slope * gy, gy)"),
    ("elu_grad", "x:T gy:T", "alpha", "gx = where(x > 0, gy, alpha * exp(x) * gy)"),
    ("clipped_relu_grad", "x:T gy:T", "z", "gx = gy * ((0 < x) & (x < z))"),
    ("sigmoid_grad", "y:T gy:T", "", "gx = gy * y * (1 - y)"),
    ("tanh_grad", "y:T gy:T", "", "gx = gy * (1 - y * y)"),
    ("softplus_grad", "x:T gy:T", "beta", "gx = gy / (1 + exp(-beta * x))"),
    ("clip_grad", "x:T gy:T", "low high", "gx = gy * ((low <= x) & (x <= high))"),
    ("absolute_grad", "x:T gy:T", "", "gx = sign(x) * gy"),
    ("sqrt_grad", "y:T gy:T", "", "gx = gy / (2 * y)"),
    ("square_grad", "x:T gy:T", "", "gx = 2 * x * gy"),
    ("pow_constant_grad", "x:T gy:T", "value", "gx = value * x ** (value - 1) * gy"),
    ("rpow_constant_grad", "y:T gy:T", "value", "gx = log(value) * y * gy"),
    ("rdiv_constant_grad", "x:T gy:T", "value", "gx = -value * gy / (x * x)"),
    ("divide_grad_y", "x:T y:T gz:T", "", "gy = -(gz / y) * x / y"),
    ("power_grad_x", "x:T y:T gz:T", "", "gx = y * x ** (y - 1) * gz"),
    ("power_grad_y", "x:T z:T gz:T", "", "gy = log(x) * z * gz"),
    ("where_ge", "x:T y:T gz:T", "", "g = where(x >= y, gz, 0)"),
    ("where_not_ge", "x:T y:T gz:T", "", "g = where(x >= y, 0, gz)"),
    ("mask_ge", "x:T y:T gz:T", "", "g = gz * (x >= y)"),
    ("mask_gt", "x:T y:T gz:T", "", "g = gz * (x > y)"),
    ("mask_eq", "x:T y:T gz:T", "", "g = gz * (x == y)"),
]:
    _op(_name, _ins, "gx:T", _doc, floats=_floats, inplace=tuple(range(len(_ins.split()))))

# --- random ------------------------------------------------------------------------------------
_op('dropout', 'x:T', 'y:T mask:T',
    'mask = (rand(*x.shape) >= ratio) * x.dtype.type(1 / (1 - ratio)); y = x * mask; draws one double per element '
    'of x in C order; x, y, mask C-contiguous', floats='ratio', family='random', effect=True)  # fmt: skip

# --- reductions: x[outer, n, inner] C-contiguous -> y[outer, inner] ------------------------------
_op("sum", "x:T", "y:T", "y = x.sum(axis=1)", family="reduction")
_op("mean", "x:T", "y:T", "y = x.sum(axis=1) / n", family="reduction")
_op("max", "x:T", "y:T", "y = x.max(axis=1)", family="reduction")
_op("min", "x:T", "y:T", "y = x.min(axis=1)", family="reduction")

# --- rows: x[outer, n, inner] C-contiguous, along axis 1 -----------------------------------------
_op(
    "softmax",
    "x:T",
    "y:T",
    "y = exp(x - x.max(1)) / exp(x - x.max(1)).sum(1)",
    family="row",
    inplace=(0,),
)
_op(
    "softmax_grad",
    "y:T gy:T",
    "gx:T",
    "gx = y * (gy - (y * gy).sum(1))",
    family="row",
    inplace=(0, 1),
)
_op("log_softmax", "x:T", "y:T", "y = x - logsumexp(x, 1)", family="row", inplace=(0,))
_op(
    "log_softmax_grad",
    "y:T gy:T",
    "gx:T",
    "gx = gy - exp(y) * gy.sum(1)",
    family="row",
    inplace=(0, 1),
)

# --- matrix products (row-major) ----------------------------------------------------------------
_op('linear', 'x:T w:T b:T*', 'y:T',
    'y = act(x @ w.T + b); x[n, k], w[m, k], optional b[m], y[n, m], all C-contiguous; '
    'activation 0 none, 1 relu, 2 sigmoid, 3 tanh', ints='activation', family='blas')  # fmt: skip
_op('gemm', 'a:T b:T', 'c:T',
    'c = op(a) @ op(b) + (c if accumulate else 0); C-contiguous 2-D; op transposes when trans_a / trans_b is 1',
    ints='trans_a trans_b accumulate', family='blas')  # fmt: skip
_op('batch_matmul', 'a:T b:T', 'c:T', 'c[i] = op(a[i]) @ op(b[i]); 3-D, C-contiguous', ints='trans_a trans_b',
    family='blas')  # fmt: skip
_op('gemm_mask', 'a:T b:T y:T', 'c:T',
    'c = (a @ b) * act\'(y); a[n, m], b[m, k], y[n, k]: output of the activation below, 1 relu, 2 sigmoid, 3 tanh',
    ints='activation', family='blas')  # fmt: skip

# --- losses and evaluation ----------------------------------------------------------------------
_op('softmax_cross_entropy', 'x:T t:I w:T*', 'loss:T log_y:T coeff:T',
    'log_y = log_softmax(x); coeff = 1 / count; loss = -sum(w[t] * log_y[t] * (t != ignore_label)) * coeff; '
    'x[outer, c, inner], t[outer, inner], optional class weights w[c], loss scalar, coeff scalar. count: number of '
    'valid labels (at least 1) when normalize, else outer. IndexError for labels outside [-c, c)'
    ' apart from ignore_label, which picks class 0', ints='normalize ignore_label', family='loss')  # fmt: skip
_op('softmax_cross_entropy_grad', 'log_y:T t:I coeff:T gloss:T w:T*', 'gx:T',
    'gx = (exp(log_y) - onehot(t)) * w[t] * (t != ignore_label) * (gloss * coeff); gloss scalar',
    ints='ignore_label', family='loss')  # fmt: skip
_op('softmax_cross_entropy_no_reduce', 'x:T t:I w:T*', 'loss:T log_y:T',
    'loss[outer, inner] = -w[t] * log_y[t] * (t != ignore_label)', ints='ignore_label', family='loss')  # fmt: skip
_op('softmax_cross_entropy_no_reduce_grad', 'log_y:T t:I gloss:T w:T*', 'gx:T',
    'gx = (exp(log_y) - onehot(t)) * w[t] * (t != ignore_label) * gloss; gloss[outer, inner]', ints='ignore_label', family='loss')  # fmt: skip
_op('sigmoid_cross_entropy', 'x:T t:I', 'loss:T count:T',
    'l = (t != -1) * (x * (t - (x >= 0)) - log1p(exp(-abs(x)))); loss = -sum(l) / count; count = number of t != -1 '
    '(at least 1) when normalize, else batch size; 1-D', ints='normalize batch', family='loss')  # fmt: skip
_op('sigmoid_cross_entropy_grad', 'x:T t:I count:T gloss:T', 'gx:T',
    'gx = gloss * (t != -1) * (sigmoid(x) - t) / count; gloss scalar', family='loss')  # fmt: skip
_op('sigmoid_cross_entropy_no_reduce', 'x:T t:I', 'loss:T',
    'loss = -(t != -1) * (x * (t - (x >= 0)) - log1p(exp(-abs(x))))', family='loss')  # fmt: skip
_op('sigmoid_cross_entropy_no_reduce_grad', 'x:T t:I gloss:T', 'gx:T',
    'gx = gloss * (t != -1) * (sigmoid(x) - t)', family='loss')  # fmt: skip
_op('mean_squared_error', 'x:T y:T', 'loss:T', 'loss = ((x - y) ** 2).sum() / x.size; C-contiguous, loss scalar',
    family='loss')  # fmt: skip
_op(
    "mean_squared_error_grad",
    "x:T y:T gloss:T",
    "gx:T",
    "gx = (x - y) * (2 * gloss / x.size)",
    family="loss",
)
_op("mean_absolute_error", "x:T y:T", "loss:T", "loss = abs(x - y).sum() / x.size", family="loss")
_op(
    "mean_absolute_error_grad",
    "x:T y:T gloss:T",
    "gx:T",
    "gx = sign(x - y) * (gloss / x.size)",
    family="loss",
)
_op('huber', 'x:T y:T', 'loss:T', 'a = abs(x - y); loss = where(a > delta, delta * (a - delta / 2), a * a / 2)',
    floats='delta', inplace=(0, 1))  # fmt: skip
_op('huber_grad', 'x:T y:T gloss:T', 'gx:T',
    'gx = gloss * where(abs(x - y) > delta, delta * sign(x - y), x - y)', floats='delta', inplace=(0, 1, 2))  # fmt: skip
_op('accuracy', 'x:T t:I', 'y:T',
    'y = mean(x.argmax(1) == t), with has_ignore over t != ignore_label (0 when there is none); x[outer, c, inner], '
    't[outer, inner]', ints='has_ignore ignore_label', family='loss')  # fmt: skip

# --- update: operands that are written are inputs and outputs at once -----------------------------
_op(
    "sgd",
    "g:T p:T",
    "p_out:T",
    "p -= lr * g",
    floats="lr",
    family="update",
    inplace=(1,),
    effect=True,
)
_op('momentum_sgd', 'g:T p:T v:T', 'p_out:T v_out:T', 'v = momentum * v - lr * g; p += v', floats='lr momentum',
    family='update', effect=True)  # fmt: skip
_op('adam', 'g:T p:T m:T v:T vhat:T*', 'p_out:T m_out:T v_out:T vhat_out:T*',
    'm += one_minus_beta1 * (g - m); v += one_minus_beta2 * (g * g - v); s = maximum(vhat, v) -> vhat when given, '
    'else v; step = alpha_t / (sqrt(s) + eps), clipped to [lower, upper]; p = decay * p - eta * step * m',
    floats='alpha_t one_minus_beta1 one_minus_beta2 eps eta decay lower upper', family='update', effect=True)  # fmt: skip
_op(
    "weight_decay",
    "g:T p:T",
    "g_out:T",
    "g += rate * p",
    floats="rate",
    family="update",
    inplace=(0,),
    effect=True,
)
_op(
    "lasso",
    "g:T p:T",
    "g_out:T",
    "g += rate * sign(p)",
    floats="rate",
    family="update",
    inplace=(0,),
    effect=True,
)
_op('clip_norm', 'g:T*', 'norm:A', 'rate = threshold / sqrt(sum of (g * g).sum() over all g); unless rate >= 1: g *= rate in '
    'place, for each g; norm scalar float64 receives the norm', floats='threshold', family='update', effect=True)  # fmt: skip

_op('argmax', 'x:T', 'y:I', 'y = x.argmax(1), the first of the largest, or the first NaN; x[outer, c, inner], y[outer, inner] '
    'int32', family='loss')  # fmt: skip

OPS: tuple[Op, ...] = tuple(_rows)
BY_NAME: dict[str, Op] = {op.name: op for op in OPS}
