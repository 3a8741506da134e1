"""Elementwise functions of mathematics."""

from sdbr.ops.op import Rows

row = Rows()

for _name, _doc in [
    ("erf", "y = erf(x)"),
    ("erfc", "y = erfc(x)"),
    ("ndtr", "y = erfc(-x / sqrt(2)) / 2"),
    ("log_ndtr", "y = log(erfc(-x / sqrt(2)) / 2)"),
    ("log1p", "y = log1p(x)"),
    ("log2", "y = log2(x)"),
    ("log10", "y = log10(x)"),
    ("expm1", "y = expm1(x)"),
    ("sinh", "y = sinh(x)"),
    ("cosh", "y = cosh(x)"),
    ("sin", "y = sin(x)"),
    ("cos", "y = cos(x)"),
    ("tan", "y = tan(x)"),
    ("arcsin", "y = arcsin(x)"),
    ("arccos", "y = arccos(x)"),
    ("arctan", "y = arctan(x)"),
    ("arctanh", "y = arctanh(x)"),
    ("floor", "y = floor(x)"),
    ("ceil", "y = ceil(x)"),
    ("trunc", "y = trunc(x)"),
    ("hard_sigmoid", "y = clip(x * 0.2 + 0.5, 0, 1)"),
]:
    row(_name, "x:T", "y:T", _doc, inplace=(0,))
for _name, _doc in [
    ("arctan2", "z = arctan2(x, y)"),
    ("fmod", "z = fmod(x, y)"),
    ("divide_nonzero", "z = where(y != 0, x / y, 0)"),
]:
    row(_name, "x:T y:T", "z:T", _doc, inplace=(0, 1))
row(
    "gauss_grad",
    "x:T gy:T",
    "gx:T",
    "gx = factor * exp(scale * x * x) * gy",
    floats="factor scale",
    inplace=(0, 1),
)
row(
    "log_ndtr_grad",
    "x:T gy:T",
    "gx:T",
    "gx = sqrt(2 / pi) / erfcx(-x / sqrt(2)) * gy",
    inplace=(0, 1),
)
row(
    "hard_sigmoid_grad",
    "x:T gy:T",
    "gx:T",
    "gx = ((-2.5 < x) & (x < 2.5)) * gy * 0.2",
    inplace=(0, 1),
)

ROWS = row.rows
