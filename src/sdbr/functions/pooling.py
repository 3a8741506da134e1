"""Function rows for chainer.functions.pooling.

Images and channels are one axis of the ops, and there are always three spatial ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sdbr.functions.registry import FunctionRow, float_reason, function
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder

import numpy as np

BASE = "chainer.functions.pooling."

#: What `average_pooling` divides by.
SUM, MEAN, MEAN_WITHIN = range(3)


class _Pooling(FunctionRow):
    """One output element per window, or one input element per window."""

    @staticmethod
    def reason(node):
        reason = float_reason(node)
        if reason is None and not 1 <= len(node.in_shapes[0]) - 2 <= 3:
            reason = f"windows over {len(node.in_shapes[0]) - 2} axes (only one to three)"
        return reason


def window(f) -> tuple[int, ...]:
    """Size, stride and padding along three axes."""
    if hasattr(f, "ksize"):
        numbers = (f.ksize, f.stride, f.pad)
    else:
        numbers = ((f.kh, f.kw), (f.sy, f.sx), (f.ph, f.pw))
    return tuple(
        int(n)
        for own, missing in zip(numbers, (1, 1, 0), strict=True)
        for n in (*[missing] * (3 - len(own)), *own)
    )


def _canonical(shape: Sequence[int]) -> tuple[int, ...]:
    """``[images and channels, d, h, w]``."""
    inner = shape[2:]
    return (shape[0] * shape[1], *[1] * (3 - len(inner)), *inner)


def _emit(b: Builder, name: str, ins: Sequence[Row], shape: Sequence[int], ints) -> Row:
    """An op from canonical rows to a new row of `shape`."""
    y = b.new(shape, ins[0].dtype)
    ins = [b.reshape(x, _canonical(x.shape)) for x in ins]
    b.emit(name, ins, [b.reshape(y, _canonical(shape))], ints)
    return y


@function(BASE + "max_pooling_nd.MaxPoolingND")
class MaxPooling(_Pooling):
    """The largest of each window; where it was is kept in a byte where that is enough."""

    half = True
    states = ("indexes",)

    def forward(b, node, xs):
        f, x, shape = node.function, xs[0], node.out_shapes[0]
        numbers = window(f)
        if not (node.requires_grad[0] or node.handed_out):
            return [_emit(b, "max_pooling", [x], shape, numbers)]
        y = b.new(shape, x.dtype)
        k = b.new(shape, "u1" if math.prod(numbers[:3]) <= 256 else "i4")
        ins, outs = (
            [b.reshape(x, _canonical(x.shape))],
            [b.reshape(r, _canonical(shape)) for r in (y, k)],
        )
        b.emit("max_pooling_index", ins, outs, numbers)
        node.state["k"] = k
        if node.handed_out:
            node.state["indexes"] = b.cast(k, np.intp)
        return [y]

    def backward(b, node, xs, ys, gys, wanted):
        ints = (*window(node.function), 1)
        return [_emit(b, "max_pooling_grad", [gys[0], node.state["k"]], xs[0].shape, ints)]

    def pushed(b, node, xs):
        ints = (*window(node.function), 0)
        k = node.state["k"]
        return [_emit(b, "max_pooling_pick", [xs[0], k], k.shape, ints)]


class _Averages(_Pooling):
    """The mean of each window."""

    half = True
    linear = True

    @staticmethod
    def divide(f) -> int:
        return MEAN

    @classmethod
    def forward(cls, b, node, xs):
        x, numbers = xs[0], window(node.function)
        if _is_global(node, numbers):
            return [b.reduce("mean", x, range(2, x.ndim), keepdims=True)]
        ints = (*numbers, cls.divide(node.function))
        return [_emit(b, "average_pooling", [x], node.out_shapes[0], ints)]

    @classmethod
    def backward(cls, b, node, xs, ys, gys, wanted):
        shape, numbers = xs[0].shape, window(node.function)
        if _is_global(node, numbers):
            share = b.elementwise("div_constant", gys[0], floats=(float(math.prod(numbers[:3])),))
            return [b.broadcast(share, shape)]
        ints = (*numbers, cls.divide(node.function))
        return [_emit(b, "average_pooling_grad", [gys[0]], shape, ints)]


def _is_global(node, numbers) -> bool:
    """Whether there is one window, the image."""
    image = _canonical(node.in_shapes[0])[1:]
    return numbers[:3] == image and not any(numbers[6:]) and math.prod(node.out_shapes[0][2:]) == 1


@function(BASE + "average_pooling_2d.AveragePooling2D")
class AveragePooling2D(_Averages):
    """The border counts as zeros."""


@function(BASE + "average_pooling_nd.AveragePoolingND")
class AveragePoolingND(_Averages):
    """The border counts as zeros, or not at all."""

    def divide(f):
        return MEAN_WITHIN if f.pad_value is None else MEAN


class _Unpooling(_Pooling):
    """Each element at all places of its window; overlapping windows are added up."""

    linear = True

    @staticmethod
    def forward(b, node, xs):
        ints = (*window(node.function), SUM)
        return [_emit(b, "average_pooling_grad", [xs[0]], node.out_shapes[0], ints)]

    @staticmethod
    def backward(b, node, xs, ys, gys, wanted):
        ints = (*window(node.function), SUM)
        return [_emit(b, "average_pooling", [gys[0]], xs[0].shape, ints)]


@function(BASE + "unpooling_2d.Unpooling2D")
class Unpooling2D(_Unpooling):
    """Two axes."""


@function(BASE + "unpooling_nd.UnpoolingND")
class UnpoolingND(_Unpooling):
    """One to three axes."""


@function(BASE + "upsampling_2d.Upsampling2D")
class Upsampling2D(_Pooling):
    """Each element at one place of its window: where the largest was when it was pooled."""

    checks = True
    linear = True
    arrays = ("indexes",)

    def forward(b, node, xs):
        dtype = node.function.indexes.dtype
        k = node.state["k"] = b.contiguous(node.array(b, "indexes", dtype))
        ints = (*window(node.function), 0)
        return [_emit(b, "max_pooling_grad", [xs[0], k], node.out_shapes[0], ints)]

    def backward(b, node, xs, ys, gys, wanted):
        ints = (*window(node.function), 1)
        return [_emit(b, "max_pooling_pick", [gys[0], node.state["k"]], xs[0].shape, ints)]
