"""Function rows for what sums products over named axes: einsum, tensordot, bilinear.

An operand is a row with one letter per axis. Two operands become a matrix product where an axis of
both is summed, else a product element by element.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sdbr.functions.matmul import product
from sdbr.functions.registry import FunctionRow, float_reason, function
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder

import numpy as np

Letters = tuple[str, ...]

#: Products that may be in memory before they are summed.
AT_ONCE = 1 << 20


def summed(b: Builder, rows: Sequence[Row], letters: Sequence[Letters], out: Letters) -> Row:
    """The sum of products over all letters that are not in `out`.

    Parameters
    ----------
    b : Builder
    rows : list of Row
    letters : list of tuple of str
        Per row, one letter per axis; a letter that comes twice means the diagonal.
    out : tuple of str
        Of the result: each once, each of one of the rows.
    """
    terms = [_diagonal(b, row, tuple(ls)) for row, ls in zip(rows, letters, strict=True)]
    out = tuple(out)
    for places in _path(terms, out):
        taken = [terms[i] for i in places]
        terms = [term for i, term in enumerate(terms) if i not in places]
        keep = {*out, *(c for _, ls in terms for c in ls)}
        terms.append(_contracted(b, taken, keep))
    row, have = terms[0]
    return b.transpose(row, [have.index(c) for c in out]) if have != out else row


def _path(terms, out: Letters) -> list[tuple[int, ...]]:
    """Which operands to take together, one after the other; results come last.

    The order is NumPy's, so that infinities meet as they do there.
    """
    if len(terms) < 3:
        return [tuple(range(len(terms)))]
    names = {
        c: chr(ord("a") + i) for i, c in enumerate(dict.fromkeys(c for _, ls in terms for c in ls))
    }
    subscripts = ",".join("".join(names[c] for c in ls) for _, ls in terms)
    dummies = [np.broadcast_to(np.zeros((), np.int8), row.shape) for row, _ in terms]
    target = "".join(names[c] for c in out)
    return np.einsum_path(f"{subscripts}->{target}", *dummies, optimize="greedy")[0][1:]


def _contracted(b: Builder, terms, keep: set) -> tuple[Row, Letters]:
    """Several operands as one, summed over the letters that are not in `keep`."""
    row, have = terms[0]
    if len(terms) > 2:
        everything = {c for _, ls in terms for c in ls}
        size = _sizes(terms)
        if math.prod(size.values()) <= AT_ONCE:  # all products before the first sum
            for other, theirs in terms[1:]:
                row, have = _pair(b, (row, have), (other, theirs), everything)
            return _reduced(b, row, have, keep)
    for i, (other, theirs) in enumerate(terms[1:], 1):
        later = {c for _, ls in terms[i + 1 :] for c in ls}
        row, have = _two(b, (row, have), (other, theirs), keep | later)
    return _reduced(b, row, have, keep)


def _sizes(terms) -> dict[str, int]:
    """Length of the axis of each letter."""
    return {c: n for row, ls in terms for c, n in zip(ls, row.shape, strict=True)}


def _two(b: Builder, first, second, keep: set) -> tuple[Row, Letters]:
    """Two operands as one; letters of only one of them are summed at the end.

    Or before, where the products take too much memory: another order for infinities alone.
    """
    inner = {c for c in first[1] if c in second[1]} - keep
    size = _sizes([first, second])
    if math.prod(n for c, n in size.items() if c not in inner) > AT_ONCE:
        first = _reduced(b, *first, keep | set(second[1]))
        second = _reduced(b, *second, keep | set(first[1]))
    lone = {c for c in size if (c in first[1]) != (c in second[1])}
    return _reduced(b, *_pair(b, first, second, keep | lone), keep)


def _diagonal(b: Builder, row: Row, letters: Letters) -> tuple[Row, Letters]:
    """A view with each letter once: axes of one letter are walked together."""
    once = tuple(dict.fromkeys(letters))
    if len(once) == len(letters):
        return row, letters
    shape = [row.shape[letters.index(c)] for c in once]
    strides = [
        sum(s for s, letter in zip(row.strides, letters, strict=True) if letter == c) for c in once
    ]
    return b.table.view(row, shape, strides), once


def _reduced(b: Builder, row: Row, letters: Letters, keep: set) -> tuple[Row, Letters]:
    """Summed over the letters that nobody needs."""
    axes = [i for i, c in enumerate(letters) if c not in keep]
    if not axes:
        return row, letters
    return b.reduce("sum", row, axes), tuple(c for c in letters if c in keep)


def _pair(b: Builder, first, second, keep: set) -> tuple[Row, Letters]:
    """Two operands as one, summed over the letters of both that are not in `keep`."""
    (x, xs), (y, ys) = first, second
    both = [c for c in xs if c in ys]
    inner = [c for c in both if c not in keep]
    batch = [c for c in both if c in keep]
    rows = [c for c in xs if c not in ys]
    columns = [c for c in ys if c not in xs]
    size = dict(zip(xs + ys, x.shape + y.shape, strict=True))
    out = (*batch, *rows, *columns)
    if not inner:
        x = _ordered(b, x, xs, [*batch, *rows], [1] * len(columns))
        y = _ordered(b, y, ys, [*batch, *columns])
        shape = [size[c] for c in batch] + [1] * len(rows) + [size[c] for c in columns]
        y = b.table.view(y, shape, _widened(y, len(batch), len(rows)))
        return b.elementwise("multiply", x, y), out

    x, trans_x = _matrix(b, x, xs, batch, rows, inner)
    y, trans_y = _matrix(b, y, ys, batch, inner, columns)
    z = product(b, x, trans_x, y, trans_y)
    return b.reshape(z, [size[c] for c in out]), out


def _matrix(b: Builder, row: Row, letters: Letters, batch, first, second) -> tuple[Row, int]:
    """Matrices of two groups of letters, and whether they are to be transposed.

    Parameters
    ----------
    b : Builder
    row : Row
    letters : tuple of str
    batch, first, second : list of str
        Matrices for each of the `batch`; or one.

    Returns
    -------
    Row
        With two axes; three where there is a `batch`.
    int
    """
    size = dict(zip(letters, row.shape, strict=True))
    turned = letters == (*batch, *second, *first)
    groups = [second, first] if turned else [first, second]
    if batch:
        groups = [batch, *groups]
    row = _ordered(b, row, letters, [c for group in groups for c in group])
    return b.reshape(row, [math.prod(size[c] for c in group) for group in groups]), int(turned)


def _ordered(b: Builder, row: Row, letters: Letters, order, more=()) -> Row:
    """The axes in this order (a view), and `more` axes of length 1 behind them."""
    row = b.transpose(row, [letters.index(c) for c in order]) if row.ndim else row
    if not more:
        return row
    return b.table.view(row, [*row.shape, *more], [*row.strides, *[0] * len(more)])


def _widened(row: Row, at: int, n: int) -> list[int]:
    """Strides with `n` axes of length 1 in front of axis `at`."""
    return [*row.strides[:at], *[0] * n, *row.strides[at:]]


def placed(b: Builder, row: Row, have: Letters, out: Letters, shape) -> Row:
    """`row`, with each letter once, laid out as `out`: others repeated, twice means a diagonal."""
    once = tuple(dict.fromkeys(out))
    size = dict(zip(out, shape, strict=True))
    strides = [row.strides[have.index(c)] if c in have else 0 for c in once]
    full = b.table.view(row, [size[c] for c in once], strides)
    if len(once) == len(out):
        return full
    y = b.fill(shape, row.dtype, 0.0)
    b.emit("copy", [full], [_diagonal(b, y, out)[0]])
    return y


def gradient(b: Builder, rows, letters, out: Letters, gy: Row, i: int) -> Row:
    """The gradient of operand `i` of a sum of products."""
    terms = [out if j == i else ls for j, ls in enumerate(letters)]
    factors = [gy if j == i else row for j, row in enumerate(rows)]
    return _result(b, factors, terms, letters[i], rows[i].shape)


def _result(b: Builder, rows, letters, out: Letters, shape) -> Row:
    """`summed`, where `out` may hold letters twice, or some that no row has."""
    there = {c for ls in letters for c in ls}
    have = tuple(c for c in dict.fromkeys(out) if c in there)
    return placed(b, summed(b, rows, letters, have), have, out, shape)


@function("chainer.functions.math.einsum.EinSum")
class EinSum(FunctionRow):
    """Sums of products over axes named by letters; products of matrices where axes are summed."""

    def forward(b, node, xs):
        letters, out = EinSum.letters(node)
        return [_result(b, xs, letters, out, node.out_shapes[0])]

    def backward(b, node, xs, ys, gys, wanted):
        letters, out = EinSum.letters(node)
        return [
            gradient(b, xs, letters, out, gys[0], i) if i in wanted else None
            for i in range(len(xs))
        ]

    def letters(node):
        """Of each input, and of the output; an ellipsis (``@``) stands for several."""
        subscripts = node.function.in_subs.split(",")
        more = 0
        for shape, subscript in zip(node.in_shapes, subscripts, strict=True):
            if "@" in subscript:
                more = len(shape) - (len(subscript) - 1)

        def expanded(subscript):
            found = []
            for c in subscript:
                found += [f"@{k}" for k in range(more)] if c == "@" else [c]
            return tuple(found)

        return [expanded(s) for s in subscripts], expanded(node.function.out_sub)


@function("chainer.functions.math.einsum.DiagEinSum")
class DiagEinSum(EinSum):
    """The gradient of einsum: letters of no input are repeated, twice one is a diagonal."""


@function("chainer.functions.math.tensordot.TensorDot")
class TensorDot(FunctionRow):
    """The sum of products over pairs of axes: one product of matrices."""

    def reason(node):
        f = node.function
        if f.dtype is not None and np.dtype(f.dtype) != node.in_dtypes[0]:
            return f"a result of dtype {np.dtype(f.dtype).name}"
        if any(axis < 0 for axes in TensorDot.axes(node) for axis in (*axes[0], *axes[1])):
            return "axes counted from the end"
        return float_reason(node)

    def forward(b, node, xs):
        return [summed(b, xs, *TensorDot.letters(node))]

    def backward(b, node, xs, ys, gys, wanted):
        letters, out = TensorDot.letters(node)
        return [gradient(b, xs, letters, out, gys[0], i) if i in wanted else None for i in range(2)]

    def axes(node):
        """(kept, summed) axes of the first input, (summed, kept) ones of the second."""
        f = node.function
        if f.a_axes is not None and f.b_axes is not None:
            return f.a_axes, f.b_axes
        n, m = (len(shape) for shape in node.in_shapes)
        if isinstance(f.axes, Sequence):
            first, second = ((a,) if np.isscalar(a) else tuple(a) for a in f.axes)
        else:
            first, second = range(n - f.axes, n), range(f.axes)
        kept = [i for i in range(n) if i not in first], [i for i in range(m) if i not in second]
        return (kept[0], first), (second, kept[1])

    def letters(node):
        """Of the inputs, and of the output."""
        (rows, first), (second, columns) = TensorDot.axes(node)
        names = [[f"a{i}" for i in range(len(node.in_shapes[0]))],
                 [f"b{i}" for i in range(len(node.in_shapes[1]))]]  # fmt: skip
        for i, j in zip(first, second, strict=True):
            names[1][j] = names[0][i]
        out = [names[0][i] for i in rows] + [names[1][j] for j in columns]
        if node.function.c_axes is not None:
            places = [*node.function.c_axes[0], *node.function.c_axes[1]]
            out = [name for _, name in sorted(zip(places, out, strict=True))]
        return [tuple(n) for n in names], tuple(out)


@function("chainer.functions.connection.bilinear.BilinearFunction")
class Bilinear(FunctionRow):
    """e1 W e2 for each sample, and e1 V1 + e2 V2 + b."""

    def forward(b, node, xs):
        e1, e2 = Bilinear.flat(b, xs)
        y = summed(b, [e1, e2, xs[2]], ["ij", "ik", "jkl"], ("i", "l"))
        if len(xs) == 6:
            v1, v2, bias = xs[3:]
            y = b.elementwise("add", y, product(b, e1, 0, v1, 0))
            y = b.elementwise("add", y, product(b, e2, 0, v2, 0))
            y = b.elementwise("add", y, bias)
        return [y]

    def backward(b, node, xs, ys, gys, wanted):
        e1, e2 = e = Bilinear.flat(b, xs)
        gy, w = gys[0], xs[2]
        grads = [None] * len(xs)
        if 0 in wanted or 1 in wanted:
            weights = summed(b, [gy, w], ["il", "jkl"], ("i", "j", "k"))
        for i, other in ((0, "ik"), (1, "ij")):
            if i in wanted:
                g = summed(b, [weights, e[1 - i]], ["ijk", other], ("i", "jk"[i]))
                if len(xs) == 6:
                    g = b.elementwise("add", g, product(b, gy, 0, xs[3 + i], 1))
                grads[i] = b.reshape(g, xs[i].shape)
        if 2 in wanted:
            grads[2] = summed(b, [e1, e2, gy], ["ij", "ik", "il"], ("j", "k", "l"))
        for i in (3, 4):
            if i in wanted:
                grads[i] = product(b, e[i - 3], 1, gy, 0)
        if 5 in wanted:
            grads[5] = b.reduce("sum", gy, (0,))
        return grads

    def flat(b, xs):
        """e1 and e2, one row per sample."""
        return [b.reshape(x, (x.shape[0], math.prod(x.shape[1:]))) for x in xs[:2]]
