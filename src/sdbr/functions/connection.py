"""Function rows for chainer.functions.connection."""

from __future__ import annotations

import math

from sdbr.functions.registry import FunctionRow, function

import numpy as np


@function("chainer.functions.connection.linear.LinearFunction")
class Linear(FunctionRow):
    """x @ W.T + b on matrices; more batch axes are reshapes around the node."""

    half = True
    transparent = True

    def forward(b, node, xs):
        y = b.new(node.out_shapes[0], node.out_dtypes[0])
        b.emit("linear", [b.contiguous(x) for x in xs], [y], (0,))
        return [y]

    def backward(b, node, xs, ys, gys, wanted):
        x, w = xs[:2]
        gy = b.contiguous(gys[0])
        grads = [None] * len(xs)
        if 0 in wanted:
            grads[0] = b.new(x.shape, x.dtype)
            b.emit("gemm", [gy, b.contiguous(w)], [grads[0]], (0, 0, 0))
        if 1 in wanted:
            grads[1] = b.new(w.shape, w.dtype)
            b.emit("gemm", [gy, b.contiguous(x)], [grads[1]], (1, 0, 0))
        if 2 in wanted:
            grads[2] = b.reduce("sum", gy, (0,))
        return grads


@function("chainer.functions.connection.local_convolution_2d.LocalConvolution2DFunction")
class LocalConvolution2D(FunctionRow):
    """A convolution with weights of its own for each pixel: as many products of matrices."""

    def patches(b, node, x):
        """What each pixel sees, [pixels, images, features]."""
        f = node.function
        (n, c), (kh, kw) = x.shape[:2], node.in_shapes[1][4:]
        _, _, h, w = node.out_shapes[0]
        to_image, to_channel, to_row, to_column = x.strides
        steps = (to_row * f.sy, to_column * f.sx, to_image, to_channel, to_row, to_column)
        seen = b.table.view(x, (h, w, n, c, kh, kw), steps)
        return b.reshape(b.contiguous(seen), (h * w, n, c * kh * kw))

    def weights(b, w):
        """[pixels, outputs, features]"""
        o, h, wide, *features = w.shape
        own = b.contiguous(b.transpose(w, (1, 2, 0, 3, 4, 5)))
        return b.reshape(own, (h * wide, o, math.prod(features)))

    def forward(b, node, xs):
        n, o, h, w = node.out_shapes[0]
        y = b.new((h * w, n, o), xs[0].dtype)
        factors = [LocalConvolution2D.patches(b, node, xs[0]), LocalConvolution2D.weights(b, xs[1])]
        b.emit("batch_matmul", factors, [y], (0, 1))
        y = b.transpose(b.reshape(y, (h, w, n, o)), (2, 3, 0, 1))
        return [b.copy(y) if len(xs) < 3 else b.elementwise("add", y, xs[2])]

    def backward(b, node, xs, ys, gys, wanted):
        x, w = xs[:2]
        n, o, h, wide = node.out_shapes[0]
        gy = b.contiguous(b.transpose(gys[0], (2, 3, 0, 1)))
        gy = b.reshape(gy, (h * wide, n, o))
        grads = [None] * len(xs)
        if 0 in wanted:
            grads[0] = LocalConvolution2D.gradient_of_x(b, node, x, w, gy)
        if 1 in wanted:
            patches = LocalConvolution2D.patches(b, node, x)
            gw = b.new((h * wide, o, patches.shape[2]), w.dtype)
            b.emit("batch_matmul", [gy, patches], [gw], (1, 0))
            gw = b.reshape(gw, (h, wide, o, *w.shape[3:]))
            grads[1] = b.copy(b.transpose(gw, (2, 0, 1, 3, 4, 5)))
        if 2 in wanted:
            grads[2] = b.reduce("sum", gys[0], (0,))
        return grads

    def gradient_of_x(b, node, x, w, gy):
        """Patches are added to where they came from, in the order of pixels, as in Chainer."""
        f = node.function
        (n, c, height, width), (kh, kw) = x.shape, w.shape[4:]
        h, wide = w.shape[1:3]
        patches = b.new((h * wide, n, c * kh * kw), x.dtype)
        b.emit("batch_matmul", [gy, LocalConvolution2D.weights(b, w)], [patches], (0, 0))
        patches = b.transpose(b.reshape(patches, (h * wide, n, c, kh * kw)), (1, 2, 0, 3))
        rows = np.arange(h)[:, None, None, None] * f.sy + np.arange(kh)[:, None]
        columns = np.arange(wide)[:, None, None] * f.sx + np.arange(kw)
        places = b.constant((rows * width + columns).reshape(-1).astype(np.int32))
        gx = b.new(x.shape, x.dtype)
        ins = [b.reshape(b.contiguous(patches), (n * c, h * wide * kh * kw, 1)), places]
        b.emit("scatter_add", ins, [b.reshape(gx, (n * c, height * width, 1))], (0, 0, 0))
        return gx
