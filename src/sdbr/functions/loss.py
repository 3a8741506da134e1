"""Function rows for chainer.functions.loss."""

from __future__ import annotations

import math

from sdbr.functions import soft_targets
from sdbr.functions.common import label_layout, label_reason, number_reason
from sdbr.functions.integers import compare, compared_dtype, where
from sdbr.functions.registry import FunctionRow, float_reason, function

BASE = "chainer.functions.loss."


@function(BASE + "softmax_cross_entropy.SoftmaxCrossEntropy")
class SoftmaxCrossEntropy(FunctionRow):
    """Cross entropy of softmax, with integer labels or distributions over the classes.

    ``cache_score`` only decides what Chainer keeps for its backward; here the input and the
    logarithms of its sums are kept: the gradient may then take the memory of the input.
    """

    half = True
    checks = True
    arrays = ("class_weight",)

    def reason(node):
        return float_reason(node) if soft_targets.is_soft(node) else label_reason(node)

    def forward(b, node, xs):
        if soft_targets.is_soft(node):
            return soft_targets.forward(b, node, xs)
        f = node.function
        x, t = xs
        x_shape, t_shape = label_layout(x, t)
        ins = [b.reshape(b.contiguous(x), x_shape), b.reshape(b.contiguous(t), t_shape)]
        weight = []
        if f.class_weight is not None:
            weight = [b.contiguous(node.array(b, "class_weight", x.dtype))]
        lse = b.new(t_shape, x.dtype)
        node.state.update(x=ins[0], lse=lse, weight=weight)
        if f.reduce == "mean":
            loss, coeff = b.new((), x.dtype), b.new((), x.dtype)
            node.state["coeff"] = coeff
            b.emit(
                "softmax_cross_entropy",
                [*ins, *weight],
                [loss, lse, coeff],
                (int(bool(f.normalize)), int(f.ignore_label)),
            )
            return [loss]
        loss = b.new(t.shape, x.dtype)
        b.emit(
            "softmax_cross_entropy_no_reduce",
            [*ins, *weight],
            [b.reshape(loss, t_shape), lse],
            (int(f.ignore_label),),
        )
        return [loss]

    def backward(b, node, xs, ys, gys, wanted):
        if soft_targets.is_soft(node):
            return soft_targets.backward(b, node, xs, ys, gys, wanted)
        f = node.function
        x, t = xs
        x_shape, t_shape = label_layout(x, t)
        weight = node.state["weight"]
        if f.cache_score:
            x_kept, lse = node.kept(b, node.state["x"]), node.state["lse"]
        else:
            x_kept, lse = b.reshape(b.contiguous(x), x_shape), node.state["lse"]
            if node.may_change(b, x):
                lse = SoftmaxCrossEntropy.sums(b, x_kept, t_shape)
        kept = [x_kept, b.reshape(b.contiguous(t), t_shape), lse]
        gloss = b.contiguous(gys[0])
        gx = b.new(x.shape, x.dtype)
        out = b.reshape(gx, x_shape)
        if f.reduce == "mean":
            ins = [*kept, node.state["coeff"], gloss, *weight]
            b.emit("softmax_cross_entropy_grad", ins, [out], (int(f.ignore_label),))
        else:
            ins = [*kept, b.reshape(gloss, t_shape), *weight]
            b.emit("softmax_cross_entropy_no_reduce_grad", ins, [out], (int(f.ignore_label),))
        return [gx, None]

    def sums(b, x, t_shape):
        """The logarithms of the sums over the classes of x[outer, class, inner]."""
        largest = b.reduce("max", x, (1,), keepdims=True)
        scaled = b.elementwise("exp", b.elementwise("subtract", x, largest))
        total = b.elementwise("log", b.reduce("sum", scaled, (1,), keepdims=True))
        return b.reshape(b.elementwise("add", total, largest), t_shape)


@function(BASE + "sigmoid_cross_entropy.SigmoidCrossEntropy")
class SigmoidCrossEntropy(FunctionRow):
    """Cross entropy of the logistic function; label -1 is left out."""

    def reason(node):
        return label_reason(node)

    def forward(b, node, xs):
        f = node.function
        x = xs[0]
        flat = [b.reshape(b.contiguous(r), (x.size,)) for r in xs]
        if f.reduce == "mean":
            loss, count = b.new((), x.dtype), b.new((), x.dtype)
            node.state["count"] = count
            attributes = (int(bool(f.normalize)), x.shape[0])
            b.emit("sigmoid_cross_entropy", flat, [loss, count], attributes)
            return [loss]
        loss = b.new(x.shape, x.dtype)
        b.emit("sigmoid_cross_entropy_no_reduce", flat, [b.reshape(loss, (x.size,))])
        return [loss]

    def backward(b, node, xs, ys, gys, wanted):
        x, t = xs
        gloss = b.contiguous(gys[0])
        if node.may_change(b, t):
            return [SigmoidCrossEntropy.by_kept_mask(b, node, x, t, gloss), None]
        flat = [b.reshape(b.contiguous(r), (x.size,)) for r in xs]
        gx = b.new(x.shape, x.dtype)
        out = b.reshape(gx, (x.size,))
        if node.function.reduce == "mean":
            b.emit("sigmoid_cross_entropy_grad", [*flat, node.state["count"], gloss], [out])
        else:
            gloss = b.reshape(gloss, (x.size,))
            b.emit("sigmoid_cross_entropy_no_reduce_grad", [*flat, gloss], [out])
        return [gx, None]

    def by_kept_mask(b, node, x, t, gloss):
        """The gradient of x; which labels are left out is what the forward has seen."""
        dtype = compared_dtype(t.dtype)
        kept = b.cast(node.kept(b, t), dtype)
        valid = compare(b, "ne", kept, b.constant(dtype.type(node.function.ignore_label)))
        off = b.elementwise("subtract", b.elementwise("sigmoid", x), b.cast(t, x.dtype))
        g = where(b, valid, b.broadcast(gloss, x.shape), b.constant(x.dtype.type(0)))
        g = b.elementwise("multiply", g, off)
        if node.function.reduce != "mean":
            return g
        return b.elementwise("divide", g, b.broadcast(node.state["count"], x.shape))


class _MeanError(FunctionRow):
    """A mean over all elements that is (anti)symmetric in its two inputs."""

    name = ""

    def reason(node):
        if 0 in node.in_shapes[0]:
            return "there is nothing to take the mean of, for which the backward raises"
        return float_reason(node)

    @classmethod
    def forward(cls, b, node, xs):
        loss = b.new((), xs[0].dtype)
        b.emit(cls.name, [b.contiguous(x) for x in xs], [loss])
        return [loss]

    @classmethod
    def backward(cls, b, node, xs, ys, gys, wanted):
        x0, x1 = (b.contiguous(x) for x in xs)
        gloss = b.contiguous(gys[0])
        grads = [None, None]
        for i, pair in enumerate([(x0, x1), (x1, x0)]):
            if i in wanted:
                grads[i] = b.new(x0.shape, x0.dtype)
                b.emit(f"{cls.name}_grad", [*pair, gloss], [grads[i]])
        return grads


@function(BASE + "mean_squared_error.MeanSquaredError")
class MeanSquaredError(_MeanError):
    """Mean of the squared difference."""

    name = "mean_squared_error"
    transparent = True


@function(BASE + "mean_absolute_error.MeanAbsoluteError")
class MeanAbsoluteError(_MeanError):
    """Mean of the absolute difference; gradient 0 where the inputs are equal."""

    name = "mean_absolute_error"

    def backward(b, node, xs, ys, gys, wanted):
        # Chainer keeps the difference.
        xs = [node.kept(b, x) for x in xs]
        return _MeanError.backward.__func__(MeanAbsoluteError, b, node, xs, ys, gys, wanted)


@function(BASE + "huber_loss.HuberLoss")
class HuberLoss(FunctionRow):
    """Quadratic up to delta, linear beyond; summed along axis 1 or not at all."""

    scalars = ("delta",)
    positive = ("delta",)
    transparent = True

    def reason(node):
        reason = number_reason(node, "delta")
        if reason is None and not node.function.delta > 0:
            # Chainer's backward clips to [-delta, delta] and refuses an empty interval.
            reason = "delta is not positive"
        elif reason is None and not math.isfinite(node.function.delta):
            reason = "delta is not finite"  # Chainer's formula then gives NaN throughout
        return reason

    def forward(b, node, xs):
        loss = b.elementwise("huber", *xs, floats=(node.scalar("delta"),))
        if node.function.reduce == "sum_along_second_axis":
            loss = b.reduce("sum", loss, (1,))
        return [loss]

    def backward(b, node, xs, ys, gys, wanted):
        gloss = gys[0]
        shape = xs[0].shape
        if node.function.reduce == "sum_along_second_axis":
            gloss = b.broadcast(b.slice(gloss, (slice(None), None)), shape)
        grads = [None, None]
        for i, pair in enumerate([(xs[0], xs[1]), (xs[1], xs[0])]):
            if i in wanted:
                grads[i] = b.elementwise("huber_grad", *pair, gloss, floats=(node.scalar("delta"),))
        return grads


@function(BASE + "squared_error.SquaredError")
class SquaredError(FunctionRow):
    """(x0 - x1) ** 2, element by element."""

    transparent = True

    def forward(b, node, xs):
        return [b.elementwise("square", b.elementwise("subtract", *xs))]

    def backward(b, node, xs, ys, gys, wanted):
        # The difference is computed again: cheaper than keeping it.
        return _signed(b, wanted, "square_grad", b.elementwise("subtract", *xs), gys[0])


@function(BASE + "absolute_error.AbsoluteError")
class AbsoluteError(FunctionRow):
    """abs(x0 - x1), element by element."""

    def forward(b, node, xs):
        diff = node.state["diff"] = b.elementwise("subtract", *xs)
        return [b.elementwise("absolute", diff)]

    def backward(b, node, xs, ys, gys, wanted):
        # The difference, which Chainer keeps, is computed again where nothing can change it.
        changes = node.may_change(b, *xs)
        diff = node.state["diff"] if changes else b.elementwise("subtract", *xs)
        return _signed(b, wanted, "absolute_grad", diff, gys[0])


def _signed(b, wanted, name, diff, gy):
    """Gradients of a function of ``x0 - x1``: the second is the negative of the first."""
    gx = b.elementwise(name, diff, gy)
    return [gx if 0 in wanted else None, b.elementwise("negative", gx) if 1 in wanted else None]
