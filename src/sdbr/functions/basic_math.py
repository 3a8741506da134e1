"""Function rows for chainer.functions.math.basic_math: the operators of Variable.

Constants: Chainer rounds the value to the dtype of the input before it
computes; kernels round their float attributes in the same way.
"""

from __future__ import annotations

from sdbr.functions.common import number_reason
from sdbr.functions.integers import with_integers
from sdbr.functions.registry import FunctionRow, function
from sdbr.program.buffers import Row

BASE = "chainer.functions.math.basic_math."


@function(BASE + "Neg")
class Neg(FunctionRow):
    """-x."""

    half = True
    transparent = True

    def forward(b, node, xs):
        return [b.elementwise("negative", xs[0])]

    def backward(b, node, xs, ys, gys, wanted):
        return [b.elementwise("negative", gys[0])]


@function(BASE + "Absolute")
class Absolute(FunctionRow):
    """abs(x); gradient 0 at 0."""

    half = True
    diagonal = True
    transparent = True

    def forward(b, node, xs):
        return [b.elementwise("absolute", xs[0])]

    def backward(b, node, xs, ys, gys, wanted):
        return [b.elementwise("absolute_grad", xs[0], gys[0])]


@function(BASE + "Add")
@with_integers("add")
class Add(FunctionRow):
    """x + y."""

    half = True
    transparent = True

    def forward(b, node, xs):
        return [b.elementwise("add", *xs)]

    def backward(b, node, xs, ys, gys, wanted):
        return [b.sum_to(gys[0], x.shape) if i in wanted else None for i, x in enumerate(xs)]


@function(BASE + "MultiAdd")
@with_integers("add")
class MultiAdd(FunctionRow):
    """The sum of any number of inputs, from left to right."""

    views = True
    transparent = True

    def forward(b, node, xs):
        y = xs[0]
        for x in xs[1:]:
            y = b.elementwise("add", y, x)
        return [y]

    backward = Add.backward


@function(BASE + "Sub")
@with_integers("sub")
class Sub(FunctionRow):
    """x - y."""

    half = True
    transparent = True

    def forward(b, node, xs):
        return [b.elementwise("subtract", *xs)]

    def backward(b, node, xs, ys, gys, wanted):
        gz = gys[0]
        gx = b.sum_to(gz, xs[0].shape) if 0 in wanted else None
        gy = b.elementwise("negative", b.sum_to(gz, xs[1].shape)) if 1 in wanted else None
        return [gx, gy]


@function(BASE + "Mul")
@with_integers("mul")
class Mul(FunctionRow):
    """x * y."""

    half = True
    transparent = True

    def forward(b, node, xs):
        return [b.elementwise("multiply", *xs)]

    def backward(b, node, xs, ys, gys, wanted):
        return [
            b.sum_to(b.elementwise("multiply", gys[0], xs[1 - i]), xs[i].shape)
            if i in wanted
            else None
            for i in (0, 1)
        ]


@function(BASE + "Div")
class Div(FunctionRow):
    """x / y."""

    half = True
    transparent = True

    def forward(b, node, xs):
        return [b.elementwise("divide", *xs)]

    def backward(b, node, xs, ys, gys, wanted):
        x, y = xs
        gz = gys[0]
        gx = gy = None
        if 0 in wanted:
            gx = b.sum_to(b.elementwise("divide", gz, y), x.shape)
        if 1 in wanted:
            gy = b.sum_to(b.elementwise("divide_grad_y", x, y, gz), y.shape)
        return [gx, gy]


@function(BASE + "PowVarVar")
class PowVarVar(FunctionRow):
    """x ** y."""

    def forward(b, node, xs):
        return [b.elementwise("power", *xs)]

    def backward(b, node, xs, ys, gys, wanted):
        x, y = xs
        gz = gys[0]
        gx = gy = None
        if 0 in wanted:
            gx = b.sum_to(b.elementwise("power_grad_x", x, y, gz), x.shape)
        if 1 in wanted:
            gy = b.sum_to(b.elementwise("power_grad_y", x, node.held(ys[0]), gz), y.shape)
        return [gx, gy]


class _Constant(FunctionRow):
    """An operator with a number on one side; the number may be one that the call has computed."""

    name = ""
    #: The operator of two arrays, and whether the number is the first of them.
    of_two = ("", False)
    scalars = rounds = ("value",)
    arrays = ("value",)

    @staticmethod
    def reason(node):
        return number_reason(node, "value")

    @classmethod
    def forward(cls, b, node, xs):
        c = computed(b, node, xs[0])
        if c is None:
            return [b.elementwise(cls.name, xs[0], floats=(node.scalar("value"),))]
        name, first = cls.of_two
        return [b.elementwise(name, c, xs[0]) if first else b.elementwise(name, xs[0], c)]


def computed(b, node, x):
    """The row of a number that the call has computed, in the dtype of `x`; else None."""
    value = node.slots.get("value")
    return node.rounded(b, b.cast(value, x.dtype)) if isinstance(value, Row) else None


@function(BASE + "AddConstant")
@with_integers("add")
class AddConstant(_Constant):
    """x + c."""

    name = "add_constant"
    of_two = ("add", False)
    half = True
    transparent = True

    def backward(b, node, xs, ys, gys, wanted):
        return [gys[0]]


@function(BASE + "SubFromConstant")
@with_integers("sub", number_first=True)
class SubFromConstant(_Constant):
    """c - x."""

    name = "rsub_constant"
    of_two = ("subtract", True)
    half = True
    transparent = True

    def backward(b, node, xs, ys, gys, wanted):
        return [b.elementwise("negative", gys[0])]


@function(BASE + "MulConstant")
@with_integers("mul")
class MulConstant(_Constant):
    """c * x."""

    name = "mul_constant"
    of_two = ("multiply", False)
    half = True
    transparent = True

    def backward(b, node, xs, ys, gys, wanted):
        c = computed(b, node, xs[0])
        if c is not None:
            return [b.elementwise("multiply", gys[0], c)]
        return [b.elementwise("mul_constant", gys[0], floats=(node.scalar("value"),))]


@function(BASE + "DivFromConstant")
class DivFromConstant(_Constant):
    """c / x."""

    name = "rdiv_constant"
    of_two = ("divide", True)
    half = True
    transparent = True

    def backward(b, node, xs, ys, gys, wanted):
        c = computed(b, node, xs[0])
        if c is not None:
            return [b.elementwise("divide_grad_y", c, xs[0], gys[0])]
        return [b.elementwise("rdiv_constant_grad", xs[0], gys[0], floats=(node.scalar("value"),))]


@function(BASE + "PowVarConst")
class PowVarConst(_Constant):
    """x ** c."""

    name = "pow_constant"
    of_two = ("power", False)
    transparent = True

    def backward(b, node, xs, ys, gys, wanted):
        c = computed(b, node, xs[0])
        if c is not None:
            return [b.elementwise("power_grad_x", xs[0], c, gys[0])]
        return [b.elementwise("pow_constant_grad", xs[0], gys[0], floats=(node.scalar("value"),))]


@function(BASE + "PowConstVar")
class PowConstVar(_Constant):
    """c ** x."""

    name = "rpow_constant"
    arrays = ()  # a number that is computed may be negative in a later call
    positive = ("value",)

    def reason(node):
        reason = number_reason(node, "value")
        if reason is None and not node.function.value > 0:
            reason = "the base is not positive: Chainer's backward takes its logarithm"
        return reason

    def backward(b, node, xs, ys, gys, wanted):
        return [b.elementwise("rpow_constant_grad", ys[0], gys[0], floats=(node.scalar("value"),))]
