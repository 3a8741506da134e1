"""Function rows for what Chainer's backward applies: a call differentiated its gradient."""

from __future__ import annotations

import math

from sdbr.functions.common import number_reason
from sdbr.functions.matmul import product
from sdbr.functions.registry import FunctionRow, float_reason, function

import numpy as np


@function("chainer.functions.connection.linear.LinearGradData")
class LinearGradData(FunctionRow):
    """gx = gy @ W, of W and gy."""

    transparent = True

    def forward(b, node, xs):
        w, gy = xs
        return [product(b, gy, 0, w, 0)]

    def backward(b, node, xs, ys, gys, wanted):
        w, gy = xs
        ggx = gys[0]
        return [
            product(b, gy, 1, ggx, 0) if 0 in wanted else None,
            product(b, ggx, 0, w, 1) if 1 in wanted else None,
        ]


@function("chainer.functions.connection.linear.LinearGradWeight")
class LinearGradWeight(FunctionRow):
    """gW = gy.T @ x, of x and gy."""

    transparent = True

    def reason(node):
        if np.dtype(node.function._w_dtype) != node.in_dtypes[0]:
            return f"a weight of dtype {np.dtype(node.function._w_dtype).name}"
        return float_reason(node)

    def forward(b, node, xs):
        x, gy = xs
        return [product(b, gy, 1, x, 0)]

    def backward(b, node, xs, ys, gys, wanted):
        x, gy = xs
        ggw = gys[0]
        return [
            product(b, gy, 0, ggw, 0) if 0 in wanted else None,
            product(b, x, 0, ggw, 1) if 1 in wanted else None,
        ]


class _Sided(FunctionRow):
    """gx = gy where an array on the node says so; no gradient flows to that array."""

    op = ""
    side = ""
    number = ""

    @classmethod
    def reason(cls, node):
        numbers = (cls.number,) if cls.number else ()
        side = getattr(node.function, cls.side)
        if (side.shape, side.dtype) != (node.in_shapes[0], node.in_dtypes[0]):
            return f"{cls.side} is {side.dtype.name}{list(side.shape)}"
        return number_reason(node, *numbers)

    @classmethod
    def forward(cls, b, node, xs):
        floats = (node.scalar(cls.number),) if cls.number else ()
        side = node.array(b, cls.side, xs[0].dtype)
        return [b.elementwise(cls.op, side, xs[0], floats=floats)]

    @classmethod
    def backward(cls, b, node, xs, ys, gys, wanted):
        return cls.forward(b, node, gys)


@function("chainer.functions.activation.relu.ReLUGrad2")
class ReLUGrad(_Sided):
    """gx = gy where y > 0."""

    op, side, arrays = "relu_grad", "b", ("b",)
    transparent = True


@function("chainer.functions.activation.leaky_relu._LeakyReLUGrad")
class LeakyReLUGrad(_Sided):
    """gx = gy, or slope * gy where the input (or the output) is not above 0."""

    op, side, arrays, number = "leaky_relu_grad", "cond", ("cond",), "slope"
    transparent = True


@function("chainer.functions.activation.clipped_relu.ClippedReLUGrad2")
class ClippedReLUGrad(_Sided):
    """gx = gy where 0 < x < cap."""

    op, side, arrays, number = "clipped_relu_grad", "x", ("x",), "cap"
    transparent = True


@function("chainer.functions.math.basic_math.AbsoluteGrad")
class AbsoluteGrad(_Sided):
    """gx = gy * sign(x)."""

    op, side, arrays = "absolute_grad", "x", ("x",)
    transparent = True


@function("chainer.functions.activation.tanh.TanhGrad")
class TanhGrad(FunctionRow):
    """gx = gy * (1 - y * y), of y and gy."""

    transparent = True

    def forward(b, node, xs):
        return [b.elementwise("tanh_grad", *xs)]

    def backward(b, node, xs, ys, gys, wanted):
        y, gy = xs
        ggx = gys[0]
        grads = [None, None]
        if 0 in wanted:
            part = b.elementwise("multiply", b.elementwise("multiply", gy, y), ggx)
            grads[0] = b.elementwise("mul_constant", part, floats=(-2.0,))
        if 1 in wanted:
            grads[1] = b.elementwise("tanh_grad", y, ggx)
        return grads


@function("chainer.functions.activation.sigmoid.SigmoidGrad")
class SigmoidGrad(FunctionRow):
    """gx = gy * y * (1 - y), of y and gy."""

    transparent = True

    def forward(b, node, xs):
        return [b.elementwise("sigmoid_grad", *xs)]

    def backward(b, node, xs, ys, gys, wanted):
        y, gy = xs
        ggx = gys[0]
        grads = [None, None]
        if 0 in wanted:
            slope = b.elementwise("mul_constant", y, floats=(-2.0,))
            slope = b.elementwise("add_constant", slope, floats=(1.0,))
            grads[0] = b.elementwise("multiply", b.elementwise("multiply", ggx, gy), slope)
        if 1 in wanted:
            grads[1] = b.elementwise("sigmoid_grad", y, ggx)
        return grads


@function("chainer.functions.math.basic_math.PowVarConstGrad")
class PowVarConstGrad(FunctionRow):
    """gx = value * x ** (value - 1) * gy, of x and gy."""

    transparent = True

    def reason(node):
        return number_reason(node, "value")

    def forward(b, node, xs):
        return [b.elementwise("pow_constant_grad", *xs, floats=(float(node.function.value),))]

    def backward(b, node, xs, ys, gys, wanted):
        x, gy = xs
        ggx = gys[0]
        value = float(node.function.value)
        grads = [None, None]
        if 0 in wanted:
            part = b.elementwise("multiply", ggx, gy)
            part = b.elementwise("mul_constant", part, floats=(value,))
            grads[0] = b.elementwise("pow_constant_grad", x, part, floats=(value - 1,))
        if 1 in wanted:
            grads[1] = b.elementwise("pow_constant_grad", x, ggx, floats=(value,))
        return grads


@function("chainer.functions.math.basic_math.DivGrad")
class DivGrad(FunctionRow):
    """gx0 = gy / x1 and gx1 = -gy * x0 / x1 ** 2, of x0, x1 and gy."""

    transparent = True

    def forward(b, node, xs):
        x0, x1, gy = xs
        gx0 = b.elementwise("divide", gy, x1)
        gx1 = b.elementwise("divide", b.elementwise("multiply", gx0, x0), x1)
        gx1 = b.elementwise("negative", gx1)
        return [b.sum_to(gx0, x0.shape), b.sum_to(gx1, x1.shape)]

    def backward(b, node, xs, ys, gys, wanted):
        x0, x1, gy = xs
        square = b.elementwise("multiply", x1, x1)

        def times(*rows):
            """The product of rows, divided by the square of x1; None without the first."""
            if rows[0] is None:
                return None
            total = rows[0]
            for row in rows[1:]:
                total = b.elementwise("multiply", total, row)
            return b.elementwise("divide", total, square)

        def less(a, c):
            """a - c, where either may be missing."""
            if c is None:
                return a
            return b.elementwise("negative", c) if a is None else b.elementwise("subtract", a, c)

        ggx0, ggx1 = gys
        grads = [None, None, None]
        if 0 in wanted:
            grads[0] = less(None, times(ggx1, gy))
        if 1 in wanted:
            curved = times(ggx1, gy, x0)
            if curved is not None:
                curved = b.elementwise("divide", curved, x1)
                curved = b.elementwise("mul_constant", curved, floats=(2.0,))
            grads[1] = less(curved, times(ggx0, gy))
        if 2 in wanted:
            straight = None if ggx0 is None else b.elementwise("divide", ggx0, x1)
            grads[2] = less(straight, times(ggx1, x0))
        return [None if g is None else b.sum_to(g, x.shape) for g, x in zip(grads, xs, strict=True)]


def _per_sample(b, gy, x):
    """One number per sample, repeated over the sample."""
    return b.broadcast(b.reshape(gy, (x.shape[0], *[1] * (x.ndim - 1))), x.shape)


@function("chainer.functions.math.batch_l2_norm_squared.BatchL2NormSquaredGrad")
class BatchL2NormSquaredGrad(FunctionRow):
    """gx = 2 * x * gy, of x and gy, which has one number per sample."""

    transparent = True

    def forward(b, node, xs):
        x, gy = xs
        return [_twice(b, x, _per_sample(b, gy, x))]

    def backward(b, node, xs, ys, gys, wanted):
        x, gy = xs
        ggx = gys[0]
        grads = [None, None]
        if 0 in wanted:
            grads[0] = _twice(b, ggx, _per_sample(b, gy, x))
        if 1 in wanted:
            grads[1] = b.reduce("sum", _flat(b, _twice(b, ggx, x)), (1,))
        return grads


@function("chainer.functions.math.batch_l2_norm_squared.BatchL2NormSquared")
class BatchL2NormSquared(FunctionRow):
    """The sum of the squares of each sample."""

    transparent = True

    def forward(b, node, xs):
        return [b.reduce("sum", _flat(b, b.elementwise("square", xs[0])), (1,))]

    def backward(b, node, xs, ys, gys, wanted):
        return [_twice(b, xs[0], _per_sample(b, gys[0], xs[0]))]


def _twice(b, x, y):
    return b.elementwise("mul_constant", b.elementwise("multiply", x, y), floats=(2.0,))


def _flat(b, x):
    """One row per sample."""
    return b.reshape(x, (x.shape[0], math.prod(x.shape[1:])))
