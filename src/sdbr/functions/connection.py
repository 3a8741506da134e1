"""Rows for chainer.functions.connection."""

from __future__ import annotations

from sdbr.functions.registry import FunctionRow, function


@function("chainer.functions.connection.linear.LinearFunction")
class Linear(FunctionRow):
    """x @ W.T + b on matrices; more batch axes are reshapes around the node."""

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
