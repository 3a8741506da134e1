"""Elementwise ops."""

from sdbr.ops.op import Rows

row = Rows()

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
    row(_name, "x:T", "y:T", _doc, inplace=(0,))
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
    row(_name, "x:T", "y:T", _doc, floats=_floats, inplace=(0,))

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
    row(_name, "x:T y:T", "z:T", _doc, inplace=(0, 1))

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
    row(_name, _ins, "gx:T", _doc, floats=_floats, inplace=tuple(range(len(_ins.split()))))

# --- two inputs and a number -----------------------------------------------------------------
row('huber', 'x:T y:T', 'loss:T', 'a = abs(x - y); loss = where(a > delta, delta * (a - delta / 2), a * a / 2)',
    floats='delta', inplace=(0, 1))  # fmt: skip
row('huber_grad', 'x:T y:T gloss:T', 'gx:T',
    'gx = gloss * where(abs(x - y) > delta, delta * sign(x - y), x - y)', floats='delta', inplace=(0, 1, 2))  # fmt: skip
row('bernoulli_log_prob', 'logit:T x:T', 'y:T',
    'y = logit * (x - 1) - log(exp(-logit) + 1); log(x) where logit is inf, log(1 - x) where it is -inf; with check -inf '
    'where x is neither 0 nor 1', floats='check', inplace=(0, 1))  # fmt: skip
row('bernoulli_log_prob_grad', 'logit:T x:T gy:T', 'glogit:T',
    'glogit = gy * (x - 1 / (1 + exp(-logit))); NaN where logit is infinite, with check also where x is neither 0 nor 1',
    floats='check', inplace=(0, 1, 2))  # fmt: skip
row("rrelu", "x:T r:T", "y:T", "y = where(x >= 0, x, x * r)", inplace=(0, 1))
row("rrelu_grad", "y:T r:T gy:T", "gx:T", "gx = where(y >= 0, gy, gy * r)", inplace=(0, 1, 2))

ROWS = row.rows
