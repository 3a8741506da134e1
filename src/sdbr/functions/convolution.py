"""Function rows for the convolutions of chainer.functions.connection and their gradient nodes.

All have three spatial axes here; those that a node lacks have length 1. A deconvolution runs the
gradient of a convolution, whose `x` is its output.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sdbr.functions.common import data_reason
from sdbr.functions.registry import FunctionRow, Node, float_reason, function
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder

import numpy as np

BASE = "chainer.functions.connection."
AXES = 3


@dataclasses.dataclass(frozen=True)
class _Options:
    """Stride, padding and dilation of three axes, and the groups."""

    stride: tuple[int, ...]
    pad: tuple[int, ...]
    dilate: tuple[int, ...]
    groups: int


def _numbers(values, default: int) -> tuple[int, ...]:
    values = tuple(int(v) for v in values)
    return (default,) * (AXES - len(values)) + values


def _options(f) -> _Options:
    """The options of a node; classes for two axes and for any number name them differently."""
    if hasattr(f, "sy"):
        stride, pad, dilate = (f.sy, f.sx), (f.ph, f.pw), (f.dy, f.dx)
    else:
        stride, pad, dilate = f.stride, f.pad, f.dilate
    return _Options(_numbers(stride, 1), _numbers(pad, 0), _numbers(dilate, 1), int(f.groups))


def _reason(node: Node) -> str | None:
    reason = float_reason(node)
    if reason is not None:
        return reason
    axes = len(node.in_shapes[0]) - 2
    if axes > AXES:
        return f"{axes} spatial axes"
    o = _options(node.function)
    if min(o.pad) < 0 or min(o.stride) < 1 or min(o.dilate) < 1:
        return f"stride {o.stride}, padding {o.pad}, dilation {o.dilate}"
    return None


def _canonical(b: Builder, x: Row) -> Row:
    """`x` C-contiguous and with three spatial axes."""
    return b.reshape(x, (*x.shape[:2], *(1,) * (AXES + 2 - x.ndim), *x.shape[2:]))


def _emit(b: Builder, op: str, ins: Sequence[Row], shape, node: Node, last: int = 0) -> Row:
    """Emit one op of the family; its result has `shape`. `last` is its last attribute."""
    options = _options(node.function)
    ins = [_canonical(b, x) if x.ndim > 1 else b.contiguous(x) for x in ins]
    out = b.new(shape, ins[0].dtype)
    numbers = (*options.stride, *options.pad, *options.dilate, options.groups)
    b.emit(op, ins, [_canonical(b, out)], (*numbers, last))
    return out


def _bias_gradient(b: Builder, gy: Row) -> Row:
    """The sum over pixels, then over images: in one go a transposed copy would come first."""
    return b.reduce("sum", b.reduce("sum", gy, range(2, gy.ndim)), (0,))


class _Convolution(FunctionRow):
    """Of x, w and perhaps b: patches of x times w."""

    half = True

    reason = staticmethod(_reason)

    def forward(b, node, xs):
        return [_emit(b, "convolution", xs, node.out_shapes[0], node)]

    def backward(b, node, xs, ys, gys, wanted):
        x, w = xs[:2]
        gy = b.contiguous(gys[0])
        grads = [None] * len(xs)
        if 0 in wanted:
            grads[0] = _emit(b, "convolution_grad_x", [gy, w], x.shape, node)
        if 1 in wanted:
            grads[1] = _emit(b, "convolution_grad_w", [x, gy], w.shape, node)
        if 2 in wanted:
            grads[2] = _bias_gradient(b, gy)
        return grads


class _Deconvolution(FunctionRow):
    """Of x, w and perhaps b: what a convolution with w would have read to give x."""

    half = True

    reason = staticmethod(_reason)

    def forward(b, node, xs):
        return [_emit(b, "convolution_grad_x", xs, node.out_shapes[0], node)]

    def backward(b, node, xs, ys, gys, wanted):
        x, w = xs[:2]
        gy = b.contiguous(gys[0])
        grads = [None] * len(xs)
        if 0 in wanted:
            grads[0] = _emit(b, "convolution", [gy, w], x.shape, node)
        if 1 in wanted:
            grads[1] = _emit(b, "convolution_grad_w", [gy, x], w.shape, node)
        if 2 in wanted:
            grads[2] = _bias_gradient(b, gy)
        return grads


class _GradW(FunctionRow):
    """Of x and gy of a convolution: the gradient of its w."""

    def reason(node):
        dtype = np.dtype(node.function.W_dtype)
        if dtype != node.in_dtypes[0]:
            return f"a weight of dtype {dtype.name}"
        return _reason(node)

    def forward(b, node, xs):
        return [_emit(b, "convolution_grad_w", xs, node.out_shapes[0], node)]

    def backward(b, node, xs, ys, gys, wanted):
        x, gy = xs
        ggw = b.contiguous(gys[0])
        return [
            _emit(b, "convolution_grad_x", [gy, ggw], x.shape, node) if 0 in wanted else None,
            _emit(b, "convolution", [x, ggw], gy.shape, node) if 1 in wanted else None,
        ]


@function(BASE + "convolution_2d.Convolution2DFunction")
class Convolution2D(_Convolution):
    """Two axes, with stride, padding, dilation, groups, cover_all."""

    transparent = True


@function(BASE + "convolution_nd.ConvolutionND")
class ConvolutionND(_Convolution):
    """One to three axes."""

    transparent = True


@function(BASE + "deconvolution_2d.Deconvolution2DFunction")
class Deconvolution2D(_Deconvolution):
    """Two axes; also the gradient of a convolution for its input."""

    transparent = True


@function(BASE + "deconvolution_nd.DeconvolutionND")
class DeconvolutionND(_Deconvolution):
    """One to three axes."""

    transparent = True


@function(BASE + "convolution_2d.Convolution2DGradW")
class Convolution2DGradW(_GradW):
    """Two axes."""

    transparent = True


@function(BASE + "convolution_nd.ConvolutionNDGradW")
class ConvolutionNDGradW(_GradW):
    """One to three axes."""

    transparent = True


@function(BASE + "shift.Shift")
class Shift(FunctionRow):
    """Groups of channels, each moved by its place in a window; zeros move in."""

    linear = True

    def reason(node):
        return data_reason(node)

    def forward(b, node, xs):
        return [_shifted(b, node.function, xs[0], 1)]

    def backward(b, node, xs, ys, gys, wanted):
        return [_shifted(b, node.function, gys[0], -1)]


def _shifted(b: Builder, f, x: Row, sign: int) -> Row:
    y = b.fill(x.shape, x.dtype, 0.0)
    groups = f.kh * f.kw
    size = x.shape[1] // groups
    for i in range(groups):
        # The one that does not move comes last.
        place = {(groups - 1) // 2: groups - 1, groups - 1: (groups - 1) // 2}.get(i, i)
        moves = (place // f.kw - f.kh // 2) * f.dy, (place % f.kw - f.kw // 2) * f.dx
        to, of = [], []
        for n, move in zip(x.shape[2:], moves, strict=True):
            move = max(-n, min(n, sign * move))
            to.append(slice(max(0, move), n + min(0, move)))
            of.append(slice(max(0, -move), n - max(0, move)))
        channels = slice(i * size, (i + 1) * size if i < groups - 1 else None)
        part = b.slice(y, (slice(None), channels, *to))
        if 0 not in part.shape:
            b.copy_to(b.slice(x, (slice(None), channels, *of)), part)
    return y
