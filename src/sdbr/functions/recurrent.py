"""Function rows for chainer.functions.rnn and for embed_id."""

from __future__ import annotations

import math

from sdbr.functions.registry import FunctionRow, float_reason, function
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder

BASE = "chainer.functions.rnn."


def _cells(b: Builder, x: Row) -> Row:
    """The four numbers of each cell side by side, ``[cells, 4]``, as they are in a matrix."""
    units, inner = x.shape[1] // 4, x.shape[2:]
    x = b.reshape(x, (x.shape[0], units, 4, *inner))
    if inner:
        x = b.contiguous(b.transpose(x, [0, 1, *range(3, x.ndim), 2]))
    return b.reshape(x, (x.size // 4, 4))


def _uncells(b: Builder, g: Row, shape: tuple[int, ...]) -> Row:
    """What `_cells` makes of an array of this shape, as that array."""
    units, inner = shape[1] // 4, shape[2:]
    if inner:
        g = b.reshape(g, (shape[0], units, *inner, 4))
        g = b.transpose(g, [0, 1, g.ndim - 1, *range(2, g.ndim - 1)])
    return b.reshape(g, shape)


def _flat(b: Builder, x: Row, n: int | None = None) -> Row:
    """The first `n` samples (or all) as one row of cells."""
    part = x if n is None or n == x.shape[0] else b.slice(x, slice(n))
    return b.reshape(part, (part.size,))


def _given(gys) -> tuple[tuple[int, int], list[Row]]:
    """Which of two gradients are there, and those."""
    return tuple(int(g is not None) for g in gys), [g for g in gys if g is not None]


def gradient_of_rest(b: Builder, gc: Row | None, gc_prev: Row, n: int) -> None:
    """Cells beyond the `n` of the batch are handed on as they are, and so is their gradient."""
    if n == gc_prev.shape[0]:
        return
    rest = b.slice(gc_prev, slice(n, None))
    if gc is None:
        b.emit("fill", [], [rest], floats=(0.0,))
    else:
        b.copy_to(b.slice(gc, slice(n, None)), rest)


@function(BASE + "lstm.LSTM")
class LSTM(FunctionRow):
    """Long short-term memory; cells beyond the batch of x stay as they are."""

    half = True

    def forward(b, node, xs):
        c_prev, x = xs
        n = x.shape[0]
        c, h = b.new(c_prev.shape, x.dtype), b.new((n, *c_prev.shape[1:]), x.dtype)
        gates = b.new((h.size, 4), x.dtype)
        node.state["gates"] = gates
        b.emit(
            "lstm",
            [_flat(b, c_prev, n), _cells(b, x)],
            [gates, _flat(b, c, n), _flat(b, h)],
        )
        if n < c.shape[0]:
            b.copy_to(b.slice(c_prev, slice(n, None)), b.slice(c, slice(n, None)))
        return [c, h]

    def backward(b, node, xs, ys, gys, wanted):
        c_prev, x = xs
        n = x.shape[0]
        gates, (gc, gh) = node.state["gates"], gys
        if node.may_change(b, x):  # Chainer computes the gates again
            gates = b.new(gates.shape, x.dtype)
            c, h = (b.new((gates.shape[0],), x.dtype) for _ in range(2))
            b.emit("lstm", [_flat(b, c_prev, n), _cells(b, x)], [gates, c, h])
        given = [None if gc is None else _flat(b, gc, n), None if gh is None else _flat(b, gh)]
        flags, given = _given(given)
        gx, gc_prev = b.new(gates.shape, x.dtype), b.new(c_prev.shape, x.dtype)
        ins = [gates, _flat(b, c_prev, n), _flat(b, ys[0], n), *given]
        b.emit("lstm_grad", ins, [gx, _flat(b, gc_prev, n)], flags)
        gradient_of_rest(b, gc, gc_prev, n)
        return [gc_prev, _uncells(b, gx, x.shape) if 1 in wanted else None]


@function(BASE + "slstm.SLSTM")
class SLSTM(FunctionRow):
    """A cell with two children that share one output gate."""

    def forward(b, node, xs):
        c, h = (b.new(shape, xs[0].dtype) for shape in node.out_shapes)
        ins = [_flat(b, xs[0]), _flat(b, xs[1]), _cells(b, xs[2]), _cells(b, xs[3])]
        b.emit("slstm", ins, [_flat(b, c), _flat(b, h)])
        return [c, h]

    def backward(b, node, xs, ys, gys, wanted):
        flags, given = _given(gys)
        children, gates = [_flat(b, c) for c in xs[:2]], [_cells(b, x) for x in xs[2:]]
        outs = [b.new(row.shape, row.dtype) for row in (*gates, *children)]
        ins = [*children, *gates, _flat(b, ys[0]), *[_flat(b, g) for g in given]]
        b.emit("slstm_grad", ins, outs, flags)
        return [
            *[b.reshape(outs[2 + i], xs[i].shape) for i in range(2)],
            *[_uncells(b, outs[i], xs[2 + i].shape) for i in range(2)],
        ]


@function(BASE + "tree_lstm.TreeLSTM")
class TreeLSTM(FunctionRow):
    """A cell with one forget gate per child; the gates of one kind lie together."""

    def _canonical(b, xs):
        """x[n, 3 + children, cells] and the children[n, cells]."""
        *children, x = xs
        n, cells = x.shape[0], math.prod(children[0].shape[1:])
        x = b.reshape(x, (n, 3 + len(children), cells))
        return x, [b.reshape(c, (n, cells)) for c in children]

    def forward(b, node, xs):
        x, children = TreeLSTM._canonical(b, xs)
        c, h = (b.new(shape, x.dtype) for shape in node.out_shapes)
        shape = children[0].shape
        b.emit("tree_lstm", [x, *children], [b.reshape(c, shape), b.reshape(h, shape)])
        return [c, h]

    def backward(b, node, xs, ys, gys, wanted):
        # Chainer keeps the gates, and holds the cells.
        x, children = TreeLSTM._canonical(b, [*xs[:-1], node.kept(b, xs[-1])])
        flags, given = _given(gys)
        shape = children[0].shape
        c = b.reshape(node.held(ys[0]), shape)
        ins = [x, c, *children, *[b.reshape(g, shape) for g in given]]
        outs = [b.new(row.shape, row.dtype) for row in (x, *children)]
        b.emit("tree_lstm_grad", ins, outs, flags)
        gx, *gchildren = outs
        return [b.reshape(g, r.shape) for g, r in zip((*gchildren, gx), xs, strict=True)]


def _ignored(f) -> tuple[int, int]:
    """Whether there is an ignored index, and which."""
    return (0, 0) if f.ignore_label is None else (1, int(f.ignore_label))


def _look_up(b: Builder, x: Row, w: Row, f) -> Row:
    rows, width = w.shape
    y = b.new((*x.shape, width), w.dtype)
    ins = [b.reshape(w, (1, rows, width)), b.reshape(x, (x.size,))]
    b.emit("take", ins, [b.reshape(y, (1, x.size, width))], _ignored(f))
    return y


def _scatter(b: Builder, x: Row, gy: Row, shape, f) -> Row:
    gw = b.new(shape, gy.dtype)
    ins = [b.reshape(gy, (1, x.size, shape[1])), b.reshape(x, (x.size,))]
    b.emit("scatter_add", ins, [b.reshape(gw, (1, *shape))], (0, *_ignored(f)))
    return gw


@function("chainer.functions.connection.embed_id.EmbedIDFunction")
class EmbedID(FunctionRow):
    """Rows of a table; the gradient is added up in the order of the indices."""

    checks = True

    def reason(node):
        return float_reason(node, [1]) or _index_reason(node)

    def forward(b, node, xs):
        return [_look_up(b, *xs, node.function)]

    def backward(b, node, xs, ys, gys, wanted):
        x, w = xs
        return [None, _scatter(b, x, gys[0], w.shape, node.function)]


@function("chainer.functions.connection.embed_id.EmbedIDGrad")
class EmbedIDGrad(FunctionRow):
    """Gradients added to the rows that were picked; its own gradient picks them again."""

    def reason(node):
        f = node.function
        if f.ignore_label is not None and len(node.in_shapes[0]) == 0:
            return "an ignored index without an axis"
        return float_reason(node, [1]) or _index_reason(node)

    def forward(b, node, xs):
        f = node.function
        return [_scatter(b, *xs, tuple(f.w_shape), f)]

    def backward(b, node, xs, ys, gys, wanted):
        return [None, _look_up(b, xs[0], gys[0], node.function)]


def _index_reason(node) -> str | None:
    if node.in_dtypes[0].kind not in "iu":
        return f"indices of dtype {node.in_dtypes[0].name} have no native kernels"
    ignore = node.function.ignore_label
    if ignore is not None and not -(2**63) <= int(ignore) < 2**63:
        return f"ignore_label is {ignore}"
    return None
