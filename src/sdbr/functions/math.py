"""Function rows for chainer.functions.math, apart from the operators and the matrix product."""

from __future__ import annotations

from math import inf, prod

from sdbr.functions.common import (
    along,
    data_reason,
    expanded,
    is_number,
    kept_shape,
    reduced_axes,
    wider_reason,
)
from sdbr.functions.registry import FunctionRow, float_reason, function

BASE = "chainer.functions.math."


@function(BASE + "exponential.Exp")
class Exp(FunctionRow):
    """exp(x)."""

    half = True
    transparent = True

    def forward(b, node, xs):
        return [b.elementwise("exp", xs[0])]

    def backward(b, node, xs, ys, gys, wanted):
        return [b.elementwise("multiply", ys[0], gys[0])]


@function(BASE + "exponential.Log")
class Log(FunctionRow):
    """Natural logarithm."""

    half = True
    transparent = True

    def forward(b, node, xs):
        return [b.elementwise("log", xs[0])]

    def backward(b, node, xs, ys, gys, wanted):
        return [b.elementwise("divide", gys[0], xs[0])]


@function(BASE + "sqrt.Sqrt")
class Sqrt(FunctionRow):
    """Square root."""

    half = True
    transparent = True

    def forward(b, node, xs):
        return [b.elementwise("sqrt", xs[0])]

    def backward(b, node, xs, ys, gys, wanted):
        return [b.elementwise("sqrt_grad", ys[0], gys[0])]


@function(BASE + "square.Square")
class Square(FunctionRow):
    """x * x."""

    half = True
    transparent = True

    def forward(b, node, xs):
        return [b.elementwise("square", xs[0])]

    def backward(b, node, xs, ys, gys, wanted):
        return [b.elementwise("square_grad", xs[0], gys[0])]


@function(BASE + "maximum.Maximum")
class Maximum(FunctionRow):
    """Elementwise maximum; where both are equal the first gets the gradient."""

    half = True

    def forward(b, node, xs):
        return [b.elementwise("maximum", *xs)]

    def backward(b, node, xs, ys, gys, wanted):
        x, y = xs
        gx = b.elementwise("where_ge", x, y, gys[0]) if 0 in wanted else None
        gy = b.elementwise("where_not_ge", x, y, gys[0]) if 1 in wanted else None
        return _summed(b, xs, [gx, gy])


@function(BASE + "minimum.Minimum")
class Minimum(FunctionRow):
    """Elementwise minimum; where both are equal the first gets the gradient."""

    half = True

    def forward(b, node, xs):
        return [b.elementwise("minimum", *xs)]

    def backward(b, node, xs, ys, gys, wanted):
        x, y = xs
        gx = b.elementwise("mask_ge", y, x, gys[0]) if 0 in wanted else None
        gy = b.elementwise("mask_gt", x, y, gys[0]) if 1 in wanted else None
        return _summed(b, xs, [gx, gy])


def _summed(b, xs, grads):
    return [None if g is None else b.sum_to(g, x.shape) for x, g in zip(xs, grads, strict=True)]


@function(BASE + "clip.Clip")
class Clip(FunctionRow):
    """Clip to [x_min, x_max]; either may be None. The bounds themselves pass the gradient."""

    diagonal = True

    scalars = typed = ("x_min", "x_max")

    def reason(node):
        reason = float_reason(node)
        for name in ("x_min", "x_max"):
            value = getattr(node.function, name)
            if reason is None and value is not None:
                if not is_number(value):
                    reason = f"{name} is of type {type(value).__name__}, not a real number"
                else:
                    reason = wider_reason(node, name)
        return reason

    def bounds(node):
        f = node.function
        low = -float("inf") if f.x_min is None else node.scalar("x_min")
        high = float("inf") if f.x_max is None else node.scalar("x_max")
        return low, high

    def forward(b, node, xs):
        return [b.elementwise("clip", xs[0], floats=Clip.bounds(node))]

    def backward(b, node, xs, ys, gys, wanted):
        return [b.elementwise("clip_grad", xs[0], gys[0], floats=Clip.bounds(node))]


@function(BASE + "identity.Identity")
class Identity(FunctionRow):
    """The inputs themselves."""

    views = True
    transparent = True

    def reason(node):
        return data_reason(node, mixed=True, half=True)

    def forward(b, node, xs):
        return list(xs)

    def backward(b, node, xs, ys, gys, wanted):
        return list(gys)


# --- reductions ------------------------------------------------------------------------------
class _Reduction(FunctionRow):
    """Reduce over `axis` (None: all axes), with or without `keepdims`."""

    half = True
    name = ""

    @classmethod
    def forward(cls, b, node, xs):
        f = node.function
        return [b.reduce(cls.name, xs[0], reduced_axes(f.axis, xs[0].ndim), f.keepdims)]


@function(BASE + "sum.Sum")
class Sum(_Reduction):
    """Sum over axes."""

    name = "sum"
    transparent = True

    def backward(b, node, xs, ys, gys, wanted):
        x = xs[0]
        return [expanded(b, gys[0], x.shape, reduced_axes(node.function.axis, x.ndim))]


@function(BASE + "average.Mean")
class Mean(_Reduction):
    """Mean over axes; ``F.mean`` and ``F.average`` without weights."""

    name = "mean"
    transparent = True

    def backward(b, node, xs, ys, gys, wanted):
        x = xs[0]
        axes = reduced_axes(node.function.axis, x.ndim)
        n = prod(x.shape[a] for a in axes)
        gy = b.elementwise("mul_constant", gys[0], floats=(1.0 / n if n else inf,))
        return [expanded(b, gy, x.shape, axes)]


class _Selection(_Reduction):
    """Largest or smallest element; each of equals gets the whole gradient."""

    @staticmethod
    def backward(b, node, xs, ys, gys, wanted):
        x = xs[0]
        axes = reduced_axes(node.function.axis, x.ndim)
        y = b.broadcast(b.reshape(ys[0], kept_shape(x.shape, axes)), x.shape)
        return [b.elementwise("mask_eq", x, y, expanded(b, gys[0], x.shape, axes))]


@function(BASE + "minmax.Max")
class Max(_Selection):
    """Maximum over axes."""

    name = "max"


@function(BASE + "minmax.Min")
class Min(_Selection):
    """Minimum over axes."""

    name = "min"


class _Position(FunctionRow):
    """Index of an extreme along one axis, or of the flattened array; it has no gradient."""

    def reason(node):
        shape, axis = node.in_shapes[0], node.function.axis
        if prod(shape) == 0 or (axis is not None and shape[axis] == 0):
            return "the position of an extreme of nothing"
        return float_reason(node)

    def backward(b, node, xs, ys, gys, wanted):
        return [None]


def _position(b, name, x, axis):
    shape = (1, x.size, 1) if axis is None else along(x.shape, axis)
    y = b.new((shape[0], shape[2]), "i4")
    b.emit(name, [b.reshape(x, shape)], [y])
    final = () if axis is None else (*x.shape[: axis % x.ndim], *x.shape[axis % x.ndim + 1 :])
    return b.reshape(y, final)


@function(BASE + "minmax.ArgMax")
class ArgMax(_Position):
    """Index of the largest element."""

    def forward(b, node, xs):
        return [_position(b, "argmax", xs[0], node.function.axis)]


@function(BASE + "minmax.ArgMin")
class ArgMin(_Position):
    """Index of the smallest element."""

    def forward(b, node, xs):
        return [_position(b, "argmin", xs[0], node.function.axis)]


@function(BASE + "sum.SumTo")
class SumTo(FunctionRow):
    """Sum down to a shape that broadcasts to the input's."""

    transparent = True

    def forward(b, node, xs):
        return [b.sum_to(xs[0], node.out_shapes[0])]

    def backward(b, node, xs, ys, gys, wanted):
        return [b.broadcast(gys[0], xs[0].shape)]


@function(BASE + "logsumexp.LogSumExp")
class LogSumExp(FunctionRow):
    """log(sum(exp(x))) over axes, shifted by the largest element."""

    transparent = True

    def forward(b, node, xs):
        x = xs[0]
        axes = reduced_axes(node.function.axis, x.ndim)
        top = b.reduce("max", x, axes, keepdims=True)
        total = b.reduce("sum", b.elementwise("exp", b.elementwise("subtract", x, top)), axes)
        return [
            b.elementwise("add", b.elementwise("log", total), b.reshape(top, node.out_shapes[0]))
        ]

    def backward(b, node, xs, ys, gys, wanted):
        x = xs[0]
        axes = reduced_axes(node.function.axis, x.ndim)
        y = expanded(b, ys[0], x.shape, axes)
        share = b.elementwise("exp", b.elementwise("subtract", x, y))
        return [b.elementwise("multiply", expanded(b, gys[0], x.shape, axes), share)]


@function(BASE + "linear_interpolate.LinearInterpolate")
class LinearInterpolate(FunctionRow):
    """p * x + (1 - p) * y."""

    transparent = True

    def forward(b, node, xs):
        p, x, y = xs
        rest = b.elementwise("rsub_constant", p, floats=(1.0,))
        px, qy = b.elementwise("multiply", p, x), b.elementwise("multiply", rest, y)
        return [b.elementwise("add", px, qy)]

    def backward(b, node, xs, ys, gys, wanted):
        p, x, y = xs
        gz = gys[0]
        gp = gx = gy = None
        if 0 in wanted:
            gp = b.elementwise("multiply", b.elementwise("subtract", x, y), gz)
        if 1 in wanted or 2 in wanted:
            gx = b.elementwise("multiply", p, gz)
        if 2 in wanted:
            gy = b.elementwise("subtract", gz, gx)
        return [gp, gx if 1 in wanted else None, gy]
