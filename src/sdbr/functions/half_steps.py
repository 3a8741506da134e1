"""Functions that are rounded step by step in float16, as Chainer's arrays are on the way.

Where numbers that are nearly equal are subtracted, their rounding is what is left: the gradient of
a confident softmax, a saturated sigmoid. `r` rounds as an array of float16 would.
"""

from __future__ import annotations

import functools

from sdbr.functions import soft_targets
from sdbr.functions.activation import ELU, LogSoftmax, Sigmoid, Softmax, Tanh
from sdbr.functions.basic_math import DivFromConstant, computed
from sdbr.functions.common import along, label_layout
from sdbr.functions.half import in_the_place_of
from sdbr.functions.integers import compare, compared_dtype, where
from sdbr.functions.loss import SoftmaxCrossEntropy
from sdbr.functions.registry import FunctionRow, Node
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder


@in_the_place_of(Tanh)
class HalfTanh(FunctionRow):
    """gx = gy * r(1 - r(y * y))."""

    forward = Tanh.forward

    def backward(b, node, xs, ys, gys, wanted):
        square = node.rounded(b, b.elementwise("square", ys[0]))
        rest = node.rounded(b, b.elementwise("rsub_constant", square, floats=(1.0,)))
        return [b.elementwise("multiply", gys[0], rest)]


@in_the_place_of(Sigmoid)
class HalfSigmoid(FunctionRow):
    """r(tanh(x / 2)) / 2 + 1/2; gx = r(gy * y) * r(1 - y)."""

    def forward(b, node, xs):
        y = node.rounded(b, b.elementwise("mul_constant", xs[0], floats=(0.5,)))
        y = node.rounded(b, b.elementwise("tanh", y))
        y = node.rounded(b, b.elementwise("mul_constant", y, floats=(0.5,)))
        return [b.elementwise("add_constant", y, floats=(0.5,))]

    def backward(b, node, xs, ys, gys, wanted):
        rest = node.rounded(b, b.elementwise("rsub_constant", ys[0], floats=(1.0,)))
        return [b.elementwise("multiply", _product(b, node, gys[0], ys[0]), rest)]


@in_the_place_of(ELU)
class HalfELU(FunctionRow):
    """alpha * r(expm1(x)) where x <= 0; gx = r(y + alpha) * gy there."""

    scalars = rounds = ("alpha",)
    transparent = True

    def forward(b, node, xs):
        low = node.rounded(b, b.elementwise("expm1", xs[0]))
        low = b.elementwise("mul_constant", low, floats=(node.scalar("alpha"),))
        return [where(b, _is_positive(b, xs[0]), xs[0], low)]

    def backward(b, node, xs, ys, gys, wanted):
        alpha = node.scalar("alpha")
        # As Chainer: of the output, whose sign is the input's unless alpha is negative.
        is_positive = _is_positive(b, xs[0] if alpha < 0 else ys[0])
        slope = node.rounded(b, b.elementwise("add_constant", ys[0], floats=(alpha,)))
        slope = where(b, is_positive, b.constant(slope.dtype.type(1)), slope)
        return [b.elementwise("multiply", slope, gys[0])]


def _is_positive(b: Builder, x: Row) -> Row:
    return compare(b, "gt", x, b.constant(x.dtype.type(0)))


@in_the_place_of(DivFromConstant)
class HalfDivFromConstant(DivFromConstant):
    """gx = -r(c * gy) / r(x * x)."""

    def backward(b, node, xs, ys, gys, wanted):
        square = node.rounded(b, b.elementwise("square", xs[0]))
        c = computed(b, node, xs[0])
        if c is None:
            times = b.elementwise("mul_constant", gys[0], floats=(node.scalar("value"),))
        else:
            times = b.elementwise("multiply", c, gys[0])
        g = b.elementwise("divide", node.rounded(b, times), square)
        return [b.elementwise("negative", g)]


def _product(b: Builder, node: Node, x: Row, y: Row) -> Row:
    return node.rounded(b, b.elementwise("multiply", x, y))


def _sum(b: Builder, node: Node, x: Row) -> Row:
    return node.rounded(b, b.reduce("sum", x, (1,), keepdims=True))


def _shifted(b: Builder, node: Node, x: Row) -> tuple[Row, Row, Row]:
    """The largest of x[outer, n, inner] along n, e = r(exp(r(x - largest))), and r(sum(e))."""
    largest = b.reduce("max", x, (1,), keepdims=True)
    e = node.rounded(b, b.elementwise("subtract", x, largest))
    e = node.rounded(b, b.elementwise("exp", e))
    return largest, e, _sum(b, node, e)


def _logarithms(b: Builder, node: Node, x: Row) -> Row:
    """The logarithms of the softmax of x[outer, n, inner] along n, before they are rounded."""
    largest, _, total = _shifted(b, node, x)
    total = node.rounded(b, b.elementwise("log", total))
    return b.elementwise("subtract", x, node.rounded(b, b.elementwise("add", largest, total)))


class _AlongAxis(FunctionRow):
    """Of x[outer, n, inner]."""

    @classmethod
    def forward(cls, b, node, xs):
        return [cls.along(b, node, cls.given(b, node, xs[0]), cls.of)]

    @classmethod
    def backward(cls, b, node, xs, ys, gys, wanted):
        of = functools.partial(cls.gradient, gy=cls.given(b, node, gys[0]))
        return [cls.along(b, node, cls.given(b, node, ys[0]), of)]

    def given(b, node, x):
        return b.reshape(b.contiguous(x), along(x.shape, node.function.axis))

    def along(b, node, x, of):
        return b.reshape(of(b, node, x), node.out_shapes[0])

    def of(b, node, x):
        raise NotImplementedError

    def gradient(b, node, y, gy):
        raise NotImplementedError


@in_the_place_of(Softmax)
class HalfSoftmax(_AlongAxis):
    """e / s; gx = r(y * gy) - r(y * r(sum(r(y * gy))))."""

    def of(b, node, x):
        _, e, total = _shifted(b, node, x)
        return b.elementwise("divide", e, total)

    def gradient(b, node, y, gy):
        g = _product(b, node, y, gy)
        return b.elementwise("subtract", g, _product(b, node, y, _sum(b, node, g)))


@in_the_place_of(LogSoftmax)
class HalfLogSoftmax(_AlongAxis):
    """x - z; gx = gy - r(r(exp(y)) * r(sum(gy)))."""

    of = staticmethod(_logarithms)

    def gradient(b, node, y, gy):
        p = node.rounded(b, b.elementwise("exp", y))
        return b.elementwise("subtract", gy, _product(b, node, p, _sum(b, node, gy)))


@in_the_place_of(SoftmaxCrossEntropy)
class HalfSoftmaxCrossEntropy(FunctionRow):
    """Of rounded logarithms, whose sum is in float32; the gradient of rounded probabilities."""

    checks, arrays, reason = True, SoftmaxCrossEntropy.arrays, SoftmaxCrossEntropy.reason

    def forward(b, node, xs):
        if soft_targets.is_soft(node):
            return soft_targets.forward(b, node, xs)
        f = node.function
        x, t = xs
        x_shape, t_shape = label_layout(x, t)
        t = b.reshape(b.contiguous(t), t_shape)
        logarithms = node.rounded(b, _logarithms(b, node, b.reshape(b.contiguous(x), x_shape)))
        node.state["logarithms"] = logarithms
        weight = node.state["weight"] = []
        if f.class_weight is not None:
            weight.append(b.contiguous(node.array(b, "class_weight", x.dtype)))
            by_class = b.reshape(weight[0], (1, x_shape[1], 1))
            logarithms = _product(b, node, logarithms, by_class)
        # The ops take the logarithm of the sum of exp off, which is nearly 0; it is added again.
        rest, loss = b.new(t_shape, x.dtype), b.new((), x.dtype)
        ignore = int(f.ignore_label)
        if f.reduce == "mean":
            coeff = node.state["coeff"] = b.new((), x.dtype)
            ints = (int(bool(f.normalize)), ignore)
            b.emit("softmax_cross_entropy", [logarithms, t], [loss, rest, coeff], ints)
        else:
            loss = b.new(t_shape, x.dtype)
            b.emit("softmax_cross_entropy_no_reduce", [logarithms, t], [loss, rest], (ignore,))
        dtype = compared_dtype(t.dtype)
        valid = compare(b, "ne", b.cast(t, dtype), b.constant(dtype.type(ignore)))
        rest = where(b, valid, rest, b.constant(x.dtype.type(0)))
        if f.reduce == "mean":
            rest = b.elementwise("multiply", b.reduce("sum", rest, (0, 1)), coeff)
        return [b.reshape(b.elementwise("subtract", loss, rest), node.out_shapes[0])]

    def backward(b, node, xs, ys, gys, wanted):
        if soft_targets.is_soft(node):
            return soft_targets.backward(b, node, xs, ys, gys, wanted)
        f = node.function
        x, t = xs
        x_shape, t_shape = label_layout(x, t)
        logarithms = node.state["logarithms"]
        if not f.cache_score and node.may_change(b, x):
            logarithms = b.reshape(b.contiguous(x), x_shape)
            logarithms = node.rounded(b, _logarithms(b, node, logarithms))
        p = node.rounded(b, b.elementwise("exp", logarithms))
        # What the op takes exp of, less the logarithm of a sum that is 1.
        ins = [b.elementwise("log", p), b.reshape(b.contiguous(t), t_shape)]
        ins += [b.fill(t_shape, x.dtype, 0.0), b.fill(t_shape, x.dtype, 1.0)]
        g = b.new(x_shape, x.dtype)
        ints = (int(f.ignore_label),)
        b.emit("softmax_cross_entropy_no_reduce_grad", [*ins, *node.state["weight"]], [g], ints)
        scale = b.contiguous(gys[0])
        if f.reduce == "mean":
            scale = b.elementwise("multiply", scale, node.state["coeff"])
            # By a float of Python it stays float16, by one of NumPy, which counts, it does not.
            scale = scale if f.normalize else node.rounded(b, scale)
        else:
            scale = b.reshape(scale, (t_shape[0], 1, t_shape[1]))
        gx = b.elementwise("multiply", node.rounded(b, g), b.broadcast(scale, x_shape))
        return [b.reshape(gx, x.shape), None]
