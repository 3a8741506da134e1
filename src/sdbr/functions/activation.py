"""Function rows for chainer.functions.activation."""

from __future__ import annotations

from sdbr.functions.common import along, certain, number_reason, wider_reason
from sdbr.functions.integers import compare, where
from sdbr.functions.registry import FunctionRow, function
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder

BASE = "chainer.functions.activation."


@function(BASE + "relu.ReLU")
class ReLU(FunctionRow):
    """max(x, 0); the gradient looks at the output."""

    half = True
    diagonal = True
    transparent = True

    def forward(b, node, xs):
        return [b.elementwise("relu", xs[0])]

    def backward(b, node, xs, ys, gys, wanted):
        return [b.elementwise("relu_grad", ys[0], gys[0])]


@function(BASE + "leaky_relu.LeakyReLU")
class LeakyReLU(FunctionRow):
    """x, or slope * x where x <= 0."""

    half = True
    diagonal = True
    transparent = True

    scalars = rounds = ("slope",)

    def reason(node):
        return number_reason(node, "slope")

    def forward(b, node, xs):
        return [b.elementwise("leaky_relu", xs[0], floats=(node.scalar("slope"),))]

    def backward(b, node, xs, ys, gys, wanted):
        slope = node.scalar("slope")
        # The output has the sign of the input unless the slope is negative; reading it lets x go.
        side = ys[0] if certain(slope) and slope >= 0 else xs[0]
        return [b.elementwise("leaky_relu_grad", side, gys[0], floats=(slope,))]


@function(BASE + "elu.ELU")
class ELU(FunctionRow):
    """x, or alpha * (exp(x) - 1) where x <= 0."""

    half = True
    scalars = ("alpha",)
    transparent = True

    def forward(b, node, xs):
        return [b.elementwise("elu", xs[0], floats=(node.scalar("alpha"),))]

    def backward(b, node, xs, ys, gys, wanted):
        alpha = node.scalar("alpha")
        if not node.may_change(b, xs[0], ys[0]):
            return [b.elementwise("elu_grad", xs[0], gys[0], floats=(alpha,))]
        # As Chainer: of the output, whose sign is the input's unless alpha is negative.
        side = ys[0]
        if not certain(alpha):
            side = node.kept(b, xs[0])
        elif alpha < 0:
            side = xs[0]
        zero, one = (b.constant(ys[0].dtype.type(n)) for n in (0, 1))
        slope = b.elementwise("add_constant", ys[0], floats=(alpha,))
        slope = where(b, compare(b, "gt", side, zero), one, slope)
        return [b.elementwise("multiply", slope, gys[0])]


@function(BASE + "clipped_relu.ClippedReLU")
class ClippedReLU(FunctionRow):
    """min(max(x, 0), cap); 0 < x < cap exactly where 0 < y < cap."""

    diagonal = True
    transparent = True

    scalars = typed = ("cap",)

    def reason(node):
        return number_reason(node, "cap") or wider_reason(node, "cap")

    def forward(b, node, xs):
        return [b.elementwise("clipped_relu", xs[0], floats=(node.scalar("cap"),))]

    def backward(b, node, xs, ys, gys, wanted):
        # Reading the output lets the input go.
        side = xs[0] if node.may_change(b, xs[0], ys[0]) else ys[0]
        return [b.elementwise("clipped_relu_grad", side, gys[0], floats=(node.scalar("cap"),))]


@function(BASE + "sigmoid.Sigmoid")
class Sigmoid(FunctionRow):
    """Logistic function; the gradient needs the output alone."""

    half = True
    transparent = True

    def forward(b, node, xs):
        return [b.elementwise("sigmoid", xs[0])]

    def backward(b, node, xs, ys, gys, wanted):
        return [b.elementwise("sigmoid_grad", ys[0], gys[0])]


@function(BASE + "tanh.Tanh")
class Tanh(FunctionRow):
    """Hyperbolic tangent; the gradient needs the output alone."""

    half = True
    transparent = True

    def forward(b, node, xs):
        return [b.elementwise("tanh", xs[0])]

    def backward(b, node, xs, ys, gys, wanted):
        return [b.elementwise("tanh_grad", ys[0], gys[0])]


@function(BASE + "softplus.Softplus")
class Softplus(FunctionRow):
    """log(1 + exp(beta x)) / beta."""

    scalars = ("beta", "beta_inv")
    transparent = True

    def forward(b, node, xs):
        return [b.elementwise("softplus", xs[0], floats=(node.scalar("beta"),))]

    def backward(b, node, xs, ys, gys, wanted):
        return [b.elementwise("softplus_grad", xs[0], gys[0], floats=(node.scalar("beta"),))]


def _along_axis(b: Builder, name: str, axis: int, *xs: Row) -> Row:
    """Emit an op on rows along `axis` of arrays of one shape."""
    shape = xs[0].shape
    layout = along(shape, axis)
    y = b.new(shape, xs[0].dtype)
    b.emit(name, [b.reshape(b.contiguous(x), layout) for x in xs], [b.reshape(y, layout)])
    return y


@function(BASE + "softmax.Softmax")
class Softmax(FunctionRow):
    """Softmax along any axis."""

    half = True
    transparent = True

    def forward(b, node, xs):
        return [_along_axis(b, "softmax", node.function.axis, xs[0])]

    def backward(b, node, xs, ys, gys, wanted):
        return [_along_axis(b, "softmax_grad", node.function.axis, ys[0], gys[0])]


@function(BASE + "log_softmax.LogSoftmax")
class LogSoftmax(FunctionRow):
    """Logarithm of softmax along any axis."""

    half = True
    transparent = True

    def forward(b, node, xs):
        return [_along_axis(b, "log_softmax", node.function.axis, xs[0])]

    def backward(b, node, xs, ys, gys, wanted):
        return [_along_axis(b, "log_softmax_grad", node.function.axis, ys[0], gys[0])]


@function(BASE + "crelu.CReLU")
class CReLU(FunctionRow):
    """max(x, 0) and max(-x, 0), one after the other along an axis."""

    def forward(b, node, xs):
        x = xs[0]
        y = b.new(node.out_shapes[0], x.dtype)
        former, latter = CReLU.halves(b, node, y)
        b.emit("relu", [x], [former])
        b.emit("relu", [b.elementwise("negative", x)], [latter])
        return [y]

    def backward(b, node, xs, ys, gys, wanted):
        x = xs[0]
        former, latter = CReLU.halves(b, node, gys[0])
        up = b.elementwise("relu_grad", x, former)
        down = b.elementwise("relu_grad", b.elementwise("negative", x), latter)
        return [b.elementwise("subtract", up, down)]

    def halves(b, node, y):
        axis = node.function.axis % y.ndim
        n = y.shape[axis] // 2
        lead = (slice(None),) * axis
        return [b.slice(y, (*lead, key)) for key in (slice(n), slice(n, None))]
