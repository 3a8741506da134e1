"""Function rows for chainer.functions.array: shapes and axes (views wherever possible)."""

from __future__ import annotations

from sdbr.functions.common import data_reason, is_moved, label_reason
from sdbr.functions.registry import FunctionRow, function
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder

import numpy as np

BASE = "chainer.functions.array."


class MovesData(FunctionRow):
    """A function row that moves elements and computes nothing: any native dtype."""

    #: Whether its gradient adds elements up, which no op does in float16.
    adds = False

    @classmethod
    def reason(cls, node):
        return data_reason(node, half=not cls.adds)


class _Shape(MovesData):
    """Another shape of the same elements in the same order."""

    @staticmethod
    def forward(b, node, xs):
        return [b.reshape(xs[0], node.out_shapes[0])]

    @staticmethod
    def backward(b, node, xs, ys, gys, wanted):
        return [b.reshape(gys[0], xs[0].shape)]


@function(BASE + "reshape.Reshape")
class Reshape(_Shape):
    """A view of the (contiguous) input; flatten and ravel, too."""

    views = True
    transparent = True

    def forward(b, node, xs):
        x, shape = xs[0], node.out_shapes[0]
        # Where NumPy gives a view of what the user may write, a backward has to see it.
        if not x.is_contiguous and node.may_be_written(x):
            strides = merged_strides(x.shape, x.strides, shape)
            if strides is not None:
                return [b.table.view(x, shape, strides)]
        return [b.reshape(x, shape)]


def merged_strides(shape, strides, wanted) -> list[int] | None:
    """Strides of an array in another shape; None where that takes a copy."""
    if 0 in shape:
        return None
    axes = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    found: list[int] = []
    last = 0
    left = [n for n in wanted if n != 1]
    while left:
        size, group = 1, []
        total = 1
        while total != size or not group:
            if total <= size:
                if not left:
                    return None
                group.append(left.pop(0))
                total *= group[-1]
            else:
                if not axes:
                    return None
                n, stride = axes.pop(0)
                if size > 1 and last != n * stride:
                    return None
                size, last = size * n, stride
        step, inner = last, []
        for n in reversed(group):
            inner.insert(0, step)
            step *= n
        found += inner
    given = iter(found)
    return [next(given) if n != 1 else 0 for n in wanted]


@function(BASE + "expand_dims.ExpandDims")
class ExpandDims(_Shape):
    """A new axis of length 1; a view even of a strided input."""

    views = True
    transparent = True

    def forward(b, node, xs):
        axis = node.function.axis % (xs[0].ndim + 1)
        return [b.slice(xs[0], (slice(None),) * axis + (None,))]


@function(BASE + "squeeze.Squeeze")
class Squeeze(_Shape):
    """Axes of length 1 removed; a view even of a strided input."""

    views = True
    transparent = True

    def forward(b, node, xs):
        x, axis = xs[0], node.function.axis
        if axis is None:
            gone = {i for i, n in enumerate(x.shape) if n == 1}
        else:
            gone = {a % x.ndim for a in axis}
        return [b.slice(x, tuple(0 if i in gone else slice(None) for i in range(x.ndim)))]


# --- permuted axes -----------------------------------------------------------------------------
class _Permutation(MovesData):
    """A transposed view; a subclass says which axis of the input each axis comes from."""

    @staticmethod
    def axes(f, ndim: int) -> list[int]:
        raise NotImplementedError

    @classmethod
    def forward(cls, b, node, xs):
        return [b.transpose(xs[0], cls.axes(node.function, xs[0].ndim))]

    @classmethod
    def backward(cls, b, node, xs, ys, gys, wanted):
        axes = cls.axes(node.function, xs[0].ndim)
        return [b.transpose(gys[0], np.argsort(axes).tolist())]


@function(BASE + "transpose.Transpose")
class Transpose(_Permutation):
    """Any permutation; None reverses."""

    views = True
    transparent = True

    def axes(f, ndim):
        if f.axes is None:
            return list(range(ndim))[::-1]
        return [a % ndim for a in f.axes]


@function(BASE + "swapaxes.Swapaxes")
class Swapaxes(_Permutation):
    """Two axes exchanged."""

    views = True
    transparent = True

    def axes(f, ndim):
        axes = list(range(ndim))
        i, j = f.axis1 % ndim, f.axis2 % ndim
        axes[i], axes[j] = axes[j], axes[i]
        return axes


@function(BASE + "rollaxis.Rollaxis")
class Rollaxis(_Permutation):
    """One axis moved in front of another."""

    views = True
    transparent = True

    def axes(f, ndim):
        axis = f.axis % ndim
        start = f.start + ndim if f.start < 0 else f.start
        axes = [a for a in range(ndim) if a != axis]
        axes.insert(start - 1 if start > axis else start, axis)
        return axes


@function(BASE + "moveaxis.Moveaxis")
class Moveaxis(_Permutation):
    """Axes moved to given places, the others keep their order."""

    views = True
    transparent = True

    def axes(f, ndim):
        source = [a % ndim for a in f.source]
        axes = [a for a in range(ndim) if a not in source]
        for place, a in sorted(zip([d % ndim for d in f.destination], source, strict=True)):
            axes.insert(place, a)
        return axes


# --- repeated elements ---------------------------------------------------------------------------
@function(BASE + "broadcast.BroadcastTo")
class BroadcastTo(MovesData):
    """A view with stride 0; the gradient is summed."""

    views = True
    transparent = True

    def forward(b, node, xs):
        return [b.broadcast(xs[0], node.out_shapes[0])]

    def backward(b, node, xs, ys, gys, wanted):
        return [b.sum_to(gys[0], xs[0].shape)]


@function(BASE + "broadcast.Broadcast")
class Broadcast(FunctionRow):
    """Several inputs broadcast to one shape."""

    views = True
    transparent = True

    def reason(node):
        return data_reason(node, mixed=True, half=True)

    def forward(b, node, xs):
        return [b.broadcast(x, node.out_shapes[0]) for x in xs]

    def backward(b, node, xs, ys, gys, wanted):
        return [
            b.sum_to(gys[i], x.shape) if i in wanted and gys[i] is not None else None
            for i, x in enumerate(xs)
        ]


# --- parts ---------------------------------------------------------------------------------------
@function(BASE + "flip.Flip")
class Flip(MovesData):
    """One axis reversed: a view with a negative stride."""

    views = True
    transparent = True

    def forward(b, node, xs):
        return [_flipped(b, xs[0], node.function.axis)]

    def backward(b, node, xs, ys, gys, wanted):
        return [_flipped(b, gys[0], node.function.axis)]


@function(BASE + "flipud.FlipUD")
class FlipUD(MovesData):
    """The first axis reversed."""

    views = True
    transparent = True

    def forward(b, node, xs):
        return [_flipped(b, xs[0], 0)]

    def backward(b, node, xs, ys, gys, wanted):
        return [_flipped(b, gys[0], 0)]


@function(BASE + "fliplr.FlipLR")
class FlipLR(MovesData):
    """The second axis reversed."""

    views = True
    transparent = True

    def forward(b, node, xs):
        return [_flipped(b, xs[0], 1)]

    def backward(b, node, xs, ys, gys, wanted):
        return [_flipped(b, gys[0], 1)]


def _flipped(b: Builder, x: Row, axis: int) -> Row:
    return b.slice(x, (slice(None),) * (axis % x.ndim) + (slice(None, None, -1),))


@function(BASE + "select_item.SelectItem")
class SelectItem(FunctionRow):
    """One element per row, chosen by a label."""

    checks = True

    def reason(node):
        if node.in_dtypes[0].kind in "biu":
            return data_reason(node, mixed=True)
        return label_reason(node)

    def forward(b, node, xs):
        x, t = xs
        y = b.new(node.out_shapes[0], x.dtype)
        if x.dtype.kind == "f":
            b.emit("select_item", [b.contiguous(x), b.contiguous(t)], [y])
        else:
            (n, c), rows = x.shape, b.constant(np.arange(x.shape[0]))
            places = [rows, b.contiguous(t)]
            x, to = b.reshape(x, (1, n, c, 1)), b.reshape(y, (1, n, 1))
            b.emit("take", [x, *places], [to], (0, 0))
        return [y]

    def backward(b, node, xs, ys, gys, wanted):
        x, t = xs
        gx = b.new(x.shape, x.dtype)
        b.emit("select_item_grad", [b.contiguous(t), b.contiguous(gys[0])], [gx])
        return [gx, None]


@function(BASE + "cast.Cast")
class Cast(FunctionRow):
    """Another dtype, or the input itself."""

    views = True
    transparent = True

    def reason(node):
        for d in (node.in_dtypes[0], node.out_dtypes[0]):
            if not is_moved(d) and d != np.float16:
                return f"dtype {d.name} has no native kernels"
        return None

    def forward(b, node, xs):
        return [b.cast(xs[0], node.out_dtypes[0])]

    def backward(b, node, xs, ys, gys, wanted):
        return [b.cast(gys[0], xs[0].dtype) if xs[0].dtype.kind == "f" else None]
