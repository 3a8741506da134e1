"""Rows for chainer.functions.normalization."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from sdbr.functions.registry import FunctionRow, Node, float_reason, function
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder

from chainer.functions.normalization import batch_normalization

BASE = "chainer.functions.normalization."


class Channels:
    """How an array lies around the axes that keep their statistics: as x[outer, c, inner].

    Parameters
    ----------
    shape : sequence of int
    key_axis : sequence of int
        Those axes, ascending.
    """

    def __init__(self, shape: Sequence[int], key_axis: Sequence[int]):
        keys = [a % len(shape) for a in key_axis]
        rest = [a for a in range(len(shape)) if a not in keys]
        self.shape = tuple(shape)
        self.c = prod(shape[a] for a in keys)
        first = keys[0] if keys else len(shape)
        #: Where other axes lie between them: these come first in memory.
        self.order = None
        if keys and keys[-1] - first + 1 != len(keys):
            self.order = [*rest, *keys]
            first = len(rest)
        ordered = [shape[a] for a in self.order or range(len(shape))]
        # Without a key axis all of x is one channel.
        outer = prod(ordered[:first]) if keys else 1
        self.canonical = (outer, self.c, prod(shape) // max(outer * self.c, 1))

    @property
    def count(self) -> int:
        """Elements of each channel."""
        return self.canonical[0] * self.canonical[2]

    def of(self, b: Builder, x: Row) -> Row:
        """`x` as [outer, c, inner]."""
        if self.order is not None:
            x = b.transpose(x, self.order)
        return b.reshape(b.contiguous(x), self.canonical)

    def back(self, b: Builder, y: Row) -> Row:
        """[outer, c, inner] in the shape of the array."""
        if self.order is None:
            return b.reshape(y, self.shape)
        y = b.reshape(y, [self.shape[a] for a in self.order])
        inverse = [self.order.index(a) for a in range(len(self.order))]
        return b.contiguous(b.transpose(y, inverse))

    def number(self, b: Builder, v: Row) -> Row:
        """A number per channel as [c]."""
        return b.reshape(b.contiguous(v), (self.c,))


def _empty_reason(node: Node) -> str | None:
    reason = float_reason(node)
    if reason is None and (0 in node.in_shapes[0] or 0 in node.in_shapes[1]):
        reason = "the moments of nothing"
    return reason


@function(BASE + "batch_normalization.BatchNormalization")
class BatchNormalization(FunctionRow):
    """Scaled by mean and variance of the batch; running averages are updated in place."""

    arrays = updated = ("running_mean", "running_var")
    scalars = ("decay", "eps")

    def reason(node):
        f = node.function
        if f._impl_selector is not batch_normalization._impl_selector:
            return "an implementation of its own"
        for running in (f.running_mean, f.running_var):
            if running is not None and (running.dtype, running.shape) != (
                node.in_dtypes[1],
                node.in_shapes[1],
            ):
                return f"running averages {running.dtype.name}{list(running.shape)}"
        return _empty_reason(node)

    def forward(b, node, xs):
        x, gamma, beta = xs
        f = node.function
        layout = Channels(x.shape, f.key_axis)
        y = b.new(layout.canonical, x.dtype)
        mean, var = b.new((layout.c,), x.dtype), b.new((layout.c,), x.dtype)
        node.state.update(mean=mean, var=var)
        ins = [layout.of(b, x), layout.number(b, gamma), layout.number(b, beta)]
        b.emit("batch_norm", ins, [y, mean, var], (0,), (node.scalar("eps"),))
        if f.running_mean is not None:
            names = BatchNormalization.updated
            running = [b.reshape(node.array(b, name, x.dtype), (layout.c,)) for name in names]
            ints, floats = (layout.count,), (node.scalar("decay"),)
            b.emit("update_statistics", [mean, var, *running], running, ints, floats)
        return [layout.back(b, y)]

    def backward(b, node, xs, ys, gys, wanted):
        x, gamma = xs[:2]
        layout = Channels(x.shape, node.function.key_axis)
        mean, var = node.state["mean"], node.state["var"]
        x3, gy = layout.of(b, x), layout.of(b, gys[0])
        ggamma, gbeta = b.new(gamma.shape, x.dtype), b.new(gamma.shape, x.dtype)
        outs = [layout.number(b, ggamma), layout.number(b, gbeta)]
        eps = (node.scalar("eps"),)
        if 0 not in wanted:
            b.emit("batch_norm_sums", [x3, mean, var, gy], outs, (), eps)
            return [None, ggamma, gbeta]
        gx = b.new(layout.canonical, x.dtype)
        ins = [x3, layout.number(b, gamma), mean, var, gy]
        b.emit("batch_norm_grad", ins, [gx, *outs], (), eps)
        return [layout.back(b, gx), ggamma, gbeta]


@function(BASE + "batch_normalization.FixedBatchNormalization")
class FixedBatchNormalization(FunctionRow):
    """Scaled by given statistics."""

    scalars = ("eps",)

    def reason(node):
        return _empty_reason(node)

    def forward(b, node, xs):
        x = xs[0]
        layout = Channels(x.shape, node.function.key_axis)
        y = b.new(layout.canonical, x.dtype)
        ins = [layout.of(b, x), *(layout.number(b, v) for v in xs[1:])]
        b.emit("fixed_batch_norm", ins, [y], (0,), (node.scalar("eps"),))
        return [layout.back(b, y)]

    def backward(b, node, xs, ys, gys, wanted):
        x, gamma, _, mean, var = xs
        f = node.function
        grads = [None] * 5
        layout = Channels(x.shape, f.key_axis)
        shifted = b.elementwise("add_constant", var, floats=(node.scalar("eps"),))
        inv_var = b.elementwise("reciprocal", shifted)
        scale = b.elementwise("multiply", gamma, b.elementwise("sqrt", inv_var))
        if 0 in wanted:
            shape = [n if a in f.key_axis else 1 for a, n in enumerate(x.shape)]
            each = b.broadcast(b.reshape(scale, shape), x.shape)
            grads[0] = b.elementwise("multiply", each, gys[0])
        if wanted == (0,):
            return grads
        ggamma, gbeta = b.new(gamma.shape, x.dtype), b.new(gamma.shape, x.dtype)
        outs = [layout.number(b, ggamma), layout.number(b, gbeta)]
        ins = [
            layout.of(b, x),
            layout.number(b, mean),
            layout.number(b, var),
            layout.of(b, gys[0]),
        ]
        b.emit("batch_norm_sums", ins, outs, (), (node.scalar("eps"),))
        grads[1:3] = ggamma, gbeta
        if 3 in wanted:
            grads[3] = b.elementwise("negative", b.elementwise("multiply", scale, gbeta))
        if 4 in wanted:
            share = b.elementwise("multiply", inv_var, b.elementwise("multiply", gamma, ggamma))
            grads[4] = b.elementwise("mul_constant", share, floats=(-0.5,))
        return grads
