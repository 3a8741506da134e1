"""Function rows for chainer.functions.normalization."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from sdbr.functions.common import number_reason
from sdbr.functions.registry import FunctionRow, Node, float_reason, function
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder

from chainer.functions.normalization import batch_normalization

BASE = "chainer.functions.normalization."
#: Elements of a channel from which a kernel takes it as a run of its own.
RUN = 32
#: The most channels to one side of another.
NEIGHBOURS = 15


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


def _key_axis(node: Node) -> tuple[int, ...]:
    """The axes that keep their statistics: the node has worked them out if it has run."""
    x, gamma = node.in_shapes[:2]
    axis = node.function.axis
    if axis is None:
        return tuple(range(1, len(gamma) + 1))
    return tuple(a for a in range(len(x)) if a not in axis)


def _channels(node: Node) -> Channels:
    return Channels(node.in_shapes[0], _key_axis(node))


def _empty_reason(node: Node) -> str | None:
    reason = float_reason(node)
    if reason is None and (0 in node.in_shapes[0] or 0 in node.in_shapes[1]):
        reason = "the moments of nothing"
    return reason


@function(BASE + "batch_normalization.BatchNormalization")
class BatchNormalization(FunctionRow):
    """Scaled by mean and variance of the batch; running averages are updated in place."""

    half = True
    singles = (1, 2)
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
        layout = _channels(node)
        y = b.new(layout.canonical, x.dtype)
        mean, var = b.new((layout.c,), x.dtype), b.new((layout.c,), x.dtype)
        node.state.update(mean=mean, var=var)
        ins = [layout.of(b, x), layout.number(b, gamma), layout.number(b, beta)]
        b.emit("batch_norm", ins, [y, mean, var], (0,), (node.scalar("eps"),))
        if f.running_mean is not None:
            names = BatchNormalization.updated
            running = [b.reshape(node.array(b, name, x.dtype), (layout.c,)) for name in names]
            ints, floats = (layout.count,), (node.scalar("decay"),)
            update = b.emit("update_statistics", [mean, var, *running], running, ints, floats)
            update.flushes = True  # means of what is dead only decay
        return [layout.back(b, y)]

    def backward(b, node, xs, ys, gys, wanted):
        x, gamma = xs[:2]
        layout = _channels(node)
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

    half = True
    singles = (1, 2, 3, 4)
    scalars = ("eps",)

    def reason(node):
        return _empty_reason(node)

    def forward(b, node, xs):
        x = xs[0]
        layout = _channels(node)
        y = b.new(layout.canonical, x.dtype)
        ins = [layout.of(b, x), *(layout.number(b, v) for v in xs[1:])]
        b.emit("fixed_batch_norm", ins, [y], (0,), (node.scalar("eps"),))
        # Chainer's node keeps the standard deviation: calls in between may move the statistics.
        var = xs[4]
        node.state["var"] = var if var.root.slot is None else b.copy(var)
        return [layout.back(b, y)]

    def backward(b, node, xs, ys, gys, wanted):
        x, gamma, _, mean, _ = xs
        var = node.state["var"]
        grads = [None] * 5
        layout = _channels(node)
        shifted = b.elementwise("add_constant", var, floats=(node.scalar("eps"),))
        inv_var = b.elementwise("reciprocal", shifted)
        scale = b.elementwise("multiply", gamma, b.elementwise("sqrt", inv_var))
        if 0 in wanted:
            keys = _key_axis(node)
            shape = [n if a in keys else 1 for a, n in enumerate(x.shape)]
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


def _grouped(b: Builder, node: Node, xs: Sequence[Row], shape: tuple[int, int, int]) -> Row:
    """Emit the normalization of x[n, groups, length]."""
    y = b.new(shape, xs[0].dtype)
    mean, inv_std = (b.new(shape[:2], y.dtype) for _ in range(2))
    node.state.update(mean=mean, inv_std=inv_std)
    ins = [b.reshape(b.contiguous(xs[0]), shape), *(b.contiguous(v) for v in xs[1:])]
    b.emit("group_norm", ins, [y, mean, inv_std], (), (node.scalar("eps"),))
    return b.reshape(y, node.out_shapes[0])


def _grouped_gradients(
    b, node: Node, x: Row, gamma: Row, gy: Row, shape, layer=0, again=False
) -> list[Row]:
    gx = b.new(x.shape, x.dtype)
    ggamma, gbeta = (b.new(gamma.shape, x.dtype) for _ in range(2))
    ins = [b.reshape(b.contiguous(x), shape), b.contiguous(gamma)]
    mean, inv_std = node.state["mean"], node.state["inv_std"]
    if again:
        y, mean, inv_std = (b.new(r, x.dtype) for r in (shape, shape[:2], shape[:2]))
        b.emit("group_norm", [*ins, ins[1]], [y, mean, inv_std], (), (node.scalar("eps"),))
    ins += [mean, inv_std, b.reshape(b.contiguous(gy), shape)]
    b.emit("group_norm_grad", ins, [b.reshape(gx, shape), ggamma, gbeta], (layer,))
    return [gx, ggamma, gbeta]


@function(BASE + "layer_normalization.LayerNormalization")
class LayerNormalization(FunctionRow):
    """Each row of a matrix by itself."""

    scalars = ("eps",)

    def reason(node):
        return _empty_reason(node)

    def forward(b, node, xs):
        n, d = xs[0].shape
        return [_grouped(b, node, xs, (n, 1, d))]

    def backward(b, node, xs, ys, gys, wanted):
        n, d = xs[0].shape
        if node.may_change(b, xs[0]):  # Chainer computes the moments again
            return _grouped_gradients(b, node, xs[0], xs[1], gys[0], (n, 1, d), 1, again=True)
        return _grouped_gradients(b, node, xs[0], xs[1], gys[0], (n, 1, d), 1)


@function(BASE + "group_normalization.GroupNormalization")
class GroupNormalization(FunctionRow):
    """Groups of channels of each sample by themselves; as many groups as channels: instances."""

    scalars = ("eps",)

    def reason(node):
        return _empty_reason(node)

    def layout(node):
        """[n, groups, length], and the elements of a channel."""
        n, c, *rest = node.in_shapes[0]
        groups, inner = node.function.groups, prod(rest)
        return (n, groups, c // groups * inner), inner

    def spread(b, v, inner):
        """A number per channel; short channels have it once per element."""
        if inner >= RUN or inner == 1:
            return v
        each = b.copy(b.broadcast(b.reshape(v, (v.size, 1)), (v.size, inner)))
        return b.reshape(each, (each.size,))

    def forward(b, node, xs):
        shape, inner = GroupNormalization.layout(node)
        each = [GroupNormalization.spread(b, v, inner) for v in xs[1:]]
        return [_grouped(b, node, [xs[0], *each], shape)]

    def backward(b, node, xs, ys, gys, wanted):
        x, gamma = xs[:2]
        shape, inner = GroupNormalization.layout(node)
        each = GroupNormalization.spread(b, gamma, inner)
        gx, *rest = _grouped_gradients(b, node, x, each, gys[0], shape)
        if each.size != gamma.size:
            rest = [b.reduce("sum", b.reshape(g, (gamma.size, inner)), (1,)) for g in rest]
        return [gx, *rest]


@function(BASE + "local_response_normalization.LocalResponseNormalization")
class LocalResponseNormalization(FunctionRow):
    """Divided by a power of the squares of neighbouring channels."""

    scalars = ("k", "alpha", "beta")

    def reason(node):
        if not 0 <= node.function.n // 2 <= NEIGHBOURS:
            return f"a window of {node.function.n} channels"
        return number_reason(node, *LocalResponseNormalization.scalars)

    def emit(b, node, name, *rows):
        n, c, *rest = node.in_shapes[0]
        shape = (n, c, prod(rest))
        y = b.new(node.in_shapes[0], rows[0].dtype)
        ins = [b.reshape(b.contiguous(r), shape) for r in rows]
        floats = [node.scalar(s) for s in LocalResponseNormalization.scalars]
        b.emit(name, ins, [b.reshape(y, shape)], (node.function.n // 2,), floats)
        return [y]

    def forward(b, node, xs):
        return LocalResponseNormalization.emit(b, node, "local_response", xs[0])

    def backward(b, node, xs, ys, gys, wanted):
        x, y, gy = xs[0], ys[0], gys[0]
        emit = LocalResponseNormalization.emit
        if not node.may_change(b, x, y):
            return emit(b, node, "local_response_grad", x, gy)
        # Of input and output as they are by now, and of the scale as it was.
        return emit(b, node, "local_response_kept_grad", node.kept(b, x), x, y, gy)


@function(BASE + "l2_normalization.NormalizeL2")
class NormalizeL2(FunctionRow):
    """Divided by the Euclidean norm along axes; a row of zeros stays one."""

    scalars = ("eps",)

    def norm(b, node, x):
        """The norm, and the norm plus eps."""
        total = b.reduce("sum", b.elementwise("square", x), node.function.axis, keepdims=True)
        bare = b.elementwise("sqrt", total)
        return bare, b.elementwise("add_constant", bare, floats=(node.scalar("eps"),))

    def forward(b, node, xs):
        return [b.elementwise("divide", xs[0], NormalizeL2.norm(b, node, xs[0])[1])]

    def backward(b, node, xs, ys, gys, wanted):
        x, gy = xs[0], gys[0]
        bare, norm = NormalizeL2.norm(b, node, x)
        product = b.elementwise("multiply", x, gy)
        total = b.reduce("sum", product, node.function.axis, keepdims=True)
        share = b.elementwise("multiply", b.elementwise("divide_nonzero", total, bare), x)
        gx = b.elementwise("subtract", b.elementwise("multiply", gy, norm), share)
        return [b.elementwise("divide", gx, b.elementwise("square", norm))]
