"""Function rows for chainer.functions.math: running sums and products, and the product of all."""

from __future__ import annotations

import math

from sdbr.functions.common import along, reduced_axes
from sdbr.functions.registry import FunctionRow, function
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder

BASE = "chainer.functions.math."


def _layout(x: Row, axis: int | None) -> tuple[int, int, int]:
    """``(outer, n, inner)``; None takes all elements in a row."""
    return (1, x.size, 1) if axis is None else along(x.shape, axis)


@function(BASE + "cumsum.Cumsum")
class Cumsum(FunctionRow):
    """Running sums; their gradient runs the other way."""

    linear = True

    def scanned(b: Builder, node, x: Row, shape, reverse: int) -> Row:
        layout = _layout(x, node.function.axis)
        y = b.new(layout, x.dtype)
        b.emit("cumsum", [b.reshape(x, layout)], [y], (reverse,))
        return b.reshape(y, shape)

    def forward(b, node, xs):
        return [Cumsum.scanned(b, node, xs[0], node.out_shapes[0], 0)]

    def backward(b, node, xs, ys, gys, wanted):
        shape = xs[0].shape
        gy = gys[0] if node.function.axis is None else b.reshape(gys[0], shape)
        return [Cumsum.scanned(b, node, gy, shape, 1)]


@function(BASE + "cumprod.Cumprod")
class Cumprod(FunctionRow):
    """Running products."""

    def forward(b, node, xs):
        layout = _layout(xs[0], node.function.axis)
        y = b.new(layout, xs[0].dtype)
        b.emit("cumprod", [b.reshape(xs[0], layout)], [y])
        return [b.reshape(y, node.out_shapes[0])]

    def backward(b, node, xs, ys, gys, wanted):
        layout = _layout(xs[0], node.function.axis)
        gx = b.new(layout, xs[0].dtype)
        b.emit("cumprod_grad", [b.reshape(x, layout) for x in (xs[0], ys[0], gys[0])], [gx])
        return [b.reshape(gx, xs[0].shape)]


@function(BASE + "prod.Prod")
class Prod(FunctionRow):
    """The product along axes."""

    def arranged(node, x: Row) -> tuple[list[int], tuple[int, int, int]]:
        """An order of the axes in which the reduced ones come together, and that layout."""
        axes = sorted(reduced_axes(node.function.axis, x.ndim))
        kept = [i for i in range(x.ndim) if i not in axes]
        if axes and axes[-1] - axes[0] + 1 == len(axes):
            order, first = list(range(x.ndim)), axes[0]
        else:
            order, first = [*kept, *axes], len(kept)
        lengths = [x.shape[i] for i in order]
        last = first + len(axes)
        parts = (lengths[:first], lengths[first:last], lengths[last:])
        return order, tuple(map(math.prod, parts))

    def forward(b, node, xs):
        order, layout = Prod.arranged(node, xs[0])
        y = b.new((layout[0], layout[2]), xs[0].dtype)
        b.emit("prod", [b.reshape(b.transpose(xs[0], order), layout)], [y])
        return [b.reshape(y, node.out_shapes[0])]

    def backward(b, node, xs, ys, gys, wanted):
        x = xs[0]
        order, layout = Prod.arranged(node, x)
        gx = b.new([x.shape[i] for i in order], x.dtype)
        gy = b.reshape(gys[0], (layout[0], layout[2]))
        ins = [b.reshape(b.transpose(x, order), layout), gy]
        b.emit("prod_grad", ins, [b.reshape(gx, layout)])
        return [b.transpose(gx, [order.index(i) for i in range(x.ndim)])]
