"""Function rows for chainer.functions.array: joining and splitting along an axis."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from sdbr.functions.array import MovesData, merged_strides
from sdbr.functions.common import data_reason
from sdbr.functions.registry import function
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder

BASE = "chainer.functions.array."


def part(b: Builder, x: Row, axis: int, key) -> Row:
    """``x[:, ..., key]`` with `key` at `axis`."""
    return b.slice(x, (slice(None),) * (axis % x.ndim) + (key,))


def _pieces(sizes: Sequence[int]) -> list[slice]:
    ends = [0]
    for n in sizes:
        ends.append(ends[-1] + n)
    return [slice(i, j) for i, j in itertools.pairwise(ends)]


def _put(b: Builder, piece: Row | None, place: Row) -> None:
    """Copy a gradient to its place in a bigger one; a missing gradient is zero."""
    if piece is None:
        b.emit("fill", [], [place], floats=(0.0,))
    else:
        b.copy_to(piece, place)


def _as_shaped(b: Builder, x: Row, shape: Sequence[int]) -> Row:
    """A view of `x` in a shape that differs in axes of length 1 alone."""
    strides = merged_strides(x.shape, x.strides, shape)
    return b.reshape(x, shape) if strides is None else b.table.view(x, shape, strides)


class _Joining(MovesData):
    """Pieces one after the other; `layout` gives the axis and the shape of each piece there."""

    linear = True

    @staticmethod
    def layout(node) -> tuple[int, list[tuple[int, ...]]]:
        raise NotImplementedError

    @classmethod
    def forward(cls, b, node, xs):
        axis, shapes = cls.layout(node)
        y = b.new(node.out_shapes[0], node.out_dtypes[0])
        keys = _pieces([s[axis] for s in shapes])
        for x, shape, key in zip(xs, shapes, keys, strict=True):
            b.copy_to(b.reshape(x, shape), part(b, y, axis, key))
        return [y]

    @classmethod
    def backward(cls, b, node, xs, ys, gys, wanted):
        axis, shapes = cls.layout(node)
        keys = _pieces([s[axis] for s in shapes])
        return [
            _as_shaped(b, part(b, gys[0], axis, key), x.shape) if i in wanted else None
            for i, (x, key) in enumerate(zip(xs, keys, strict=True))
        ]


@function(BASE + "concat.Concat")
class Concat(_Joining):
    """Concatenate along an axis."""

    def layout(node):
        return node.function.axis % len(node.out_shapes[0]), list(node.in_shapes)


@function(BASE + "hstack.Hstack")
class Hstack(_Joining):
    """Along axis 1; vectors and scalars along axis 0."""

    def layout(node):
        shapes = [s or (1,) for s in node.in_shapes]
        return min(len(shapes[0]) - 1, 1), shapes


@function(BASE + "vstack.Vstack")
class Vstack(_Joining):
    """Along axis 0; vectors and scalars are rows."""

    def layout(node):
        return 0, [s if len(s) > 1 else (1, *(s or (1,))) for s in node.in_shapes]


@function(BASE + "dstack.Dstack")
class Dstack(_Joining):
    """Along axis 2, which is added where it is missing."""

    def layout(node):
        def at_least_3d(s):
            if len(s) < 2:
                return (1, *(s or (1,)), 1)
            return s if len(s) > 2 else (*s, 1)

        return 2, [at_least_3d(s) for s in node.in_shapes]


@function(BASE + "stack.Stack")
class Stack(MovesData):
    """Join along a new axis."""

    transparent = True

    def forward(b, node, xs):
        y = b.new(node.out_shapes[0], node.out_dtypes[0])
        for i, x in enumerate(xs):
            b.copy_to(x, part(b, y, node.function.axis, i))
        return [y]

    def backward(b, node, xs, ys, gys, wanted):
        return [
            part(b, gys[0], node.function.axis, i) if i in wanted else None for i in range(len(xs))
        ]


@function(BASE + "separate.Separate")
class Separate(MovesData):
    """One view per position along an axis, without that axis."""

    views = True
    transparent = True

    def forward(b, node, xs):
        axis = node.function.axis
        return [part(b, xs[0], axis, i) for i in range(len(node.out_shapes))]

    def backward(b, node, xs, ys, gys, wanted):
        gx = b.new(xs[0].shape, xs[0].dtype)
        for i, gy in enumerate(gys):
            _put(b, gy, part(b, gx, node.function.axis, i))
        return [gx]


@function(BASE + "split_axis.SplitAxis")
class SplitAxis(MovesData):
    """Views of consecutive pieces along an axis."""

    views = True

    structural = ("indices", "sections")
    transparent = True

    def reason(node):
        axis = node.function.axis % len(node.in_shapes[0])
        if sum(s[axis] for s in node.out_shapes) != node.in_shapes[0][axis]:
            return "the indices to split at do not rise"
        return data_reason(node, half=True)

    def keys(node):
        axis = node.function.axis % len(node.in_shapes[0])
        return axis, _pieces([s[axis] for s in node.out_shapes])

    def forward(b, node, xs):
        axis, keys = SplitAxis.keys(node)
        return [part(b, xs[0], axis, key) for key in keys]

    def backward(b, node, xs, ys, gys, wanted):
        axis, keys = SplitAxis.keys(node)
        gx = b.new(xs[0].shape, xs[0].dtype)
        for gy, key in zip(gys, keys, strict=True):
            _put(b, gy, part(b, gx, axis, key))
        return [gx]
