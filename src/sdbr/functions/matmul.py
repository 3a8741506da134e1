"""Function rows for chainer.functions.math.matmul."""

from __future__ import annotations

import math

from sdbr.functions.registry import FunctionRow, float_reason, function
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder

import numpy as np

BASE = "chainer.functions.math.matmul."


def _stored(b: Builder, x: Row, trans: int) -> tuple[Row, int]:
    """A C-contiguous matrix and a flag that give ``op(x)``; a transposed view costs no copy."""
    if not x.is_contiguous:
        turned = b.transpose(x)
        if turned.is_contiguous:
            return turned, 1 - trans
    return b.contiguous(x), trans


def product(b: Builder, x: Row, trans_x: int, y: Row, trans_y: int) -> Row:
    """``op(x) @ op(y)`` for rows with at least two axes; leading axes broadcast."""
    rows, inner = x.shape[-2:][::-1] if trans_x else x.shape[-2:]
    columns = y.shape[-2] if trans_y else y.shape[-1]
    if x.ndim == 2 and y.ndim == 2:
        if inner == 1 and 1 in (rows, columns):  # a vector times a number
            turned = [b.transpose(r) if t else r for r, t in ((x, trans_x), (y, trans_y))]
            return b.elementwise("multiply", *turned)
        if columns == 1 and not trans_y:
            y, trans_y = b.reshape(y, (1, inner)), 1
        z = b.new((rows, columns), x.dtype)
        x, trans_x = _stored(b, x, trans_x)
        y, trans_y = _stored(b, y, trans_y)
        b.emit("gemm", [x, y], [z], (trans_x, trans_y, 0))
        return z
    if y.ndim == 2 and not trans_x:  # one matrix for the whole batch: one product
        flat = b.reshape(x, (math.prod(x.shape[:-1]), inner))
        return b.reshape(product(b, flat, 0, y, trans_y), (*x.shape[:-1], columns))
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    n = math.prod(batch)
    z = b.new((*batch, rows, columns), x.dtype)
    ins = []
    for r in (x, y):
        full = b.contiguous(b.broadcast(r, (*batch, *r.shape[-2:])))
        ins.append(b.reshape(full, (n, *r.shape[-2:])))
    b.emit("batch_matmul", ins, [b.reshape(z, (n, rows, columns))], (trans_x, trans_y))
    return z


def gradients(b: Builder, x, trans_x, y, trans_y, gz, wanted) -> list[Row | None]:
    """Gradients of :func:`product` for the inputs in `wanted`."""
    gx = gy = None
    if y.ndim == 2 and x.ndim > 2 and not trans_x:
        flat_x = b.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))
        flat_gz = b.reshape(gz, (flat_x.shape[0], gz.shape[-1]))
        gx, gy = gradients(b, flat_x, 0, y, trans_y, flat_gz, wanted)
        return [None if gx is None else b.reshape(gx, x.shape), gy]
    if 0 in wanted:
        gx = product(b, y, trans_y, gz, 1) if trans_x else product(b, gz, 0, y, 1 - trans_y)
        gx = b.sum_to(gx, x.shape)
    if 1 in wanted:
        gy = product(b, gz, 1, x, trans_x) if trans_y else product(b, x, 1 - trans_x, gz, 0)
        gy = b.sum_to(gy, y.shape)
    return [gx, gy]


class _Operands:
    """The product behind a MatMul node: order, flags, vectors as matrices."""

    def __init__(self, b, node, xs):
        f = node.function
        trans = [int(bool(f.transa)), int(bool(f.transb))]
        order = [0, 1]
        if getattr(f, "transc", False):
            order, trans = [1, 0], [1 - trans[1], 1 - trans[0]]
        x, y = (xs[i] for i in order)
        vectors = (x.ndim == 1, y.ndim == 1)
        self.order = order
        self.trans = [0 if v else t for v, t in zip(vectors, trans, strict=True)]
        self.x = b.reshape(x, (1, x.size)) if vectors[0] else x
        self.y = b.reshape(y, (y.size, 1)) if vectors[1] else y
        batch = np.broadcast_shapes(self.x.shape[:-2], self.y.shape[:-2])
        rows = self.x.shape[-1] if self.trans[0] else self.x.shape[-2]
        columns = self.y.shape[-2] if self.trans[1] else self.y.shape[-1]
        self.shape = (*batch, rows, columns)


@function(BASE + "MatMul")
class MatMul(FunctionRow):
    """np.matmul with either input (or the output) transposed; vectors, matrices, batches."""

    half = True
    transparent = True

    def reason(node):
        dtype = node.function.dtype
        if dtype is not None and np.dtype(dtype) != node.in_dtypes[0]:
            return f"result dtype {np.dtype(dtype).name} differs from the inputs'"
        return float_reason(node)

    def forward(b, node, xs):
        p = _Operands(b, node, xs)
        z = product(b, p.x, p.trans[0], p.y, p.trans[1])
        return [b.reshape(z, node.out_shapes[0])]

    def backward(b, node, xs, ys, gys, wanted):
        p = _Operands(b, node, xs)
        gz = b.reshape(gys[0], p.shape)
        there = [k for k, i in enumerate(p.order) if i in wanted]
        found = gradients(b, p.x, p.trans[0], p.y, p.trans[1], gz, there)
        grads = [None, None]
        for i, g in zip(p.order, found, strict=True):
            if g is not None:
                grads[i] = b.reshape(g, xs[i].shape)
        return grads


@function(BASE + "BatchMatMul")
class BatchMatMul(FunctionRow):
    """One product per sample; a matrix is a batch of column vectors."""

    transparent = True

    def reason(node):
        if node.in_shapes[0][0] != node.in_shapes[1][0]:
            return "batches of different sizes"
        return float_reason(node)

    def forward(b, node, xs):
        f = node.function
        x, y = (_batch(b, r) for r in xs)
        return [product(b, x, int(bool(f.transa)), y, int(bool(f.transb)))]

    def backward(b, node, xs, ys, gys, wanted):
        f = node.function
        x, y = (_batch(b, r) for r in xs)
        grads = gradients(b, x, int(bool(f.transa)), y, int(bool(f.transb)), gys[0], wanted)
        return [
            None if g is None else b.reshape(g, r.shape) for g, r in zip(grads, xs, strict=True)
        ]


def _batch(b: Builder, x: Row) -> Row:
    return b.reshape(x, (*x.shape, 1)) if x.ndim == 2 else x
