"""Function rows for chainer.functions.array: lists of sequences."""

from __future__ import annotations

import itertools
import math

from sdbr.functions.array import MovesData
from sdbr.functions.registry import function
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder

BASE = "chainer.functions.array."
#: Bytes from which an element is worth a copy of its own.
_LONG = 1 << 14


def _transposed(
    b: Builder, xs: list[Row | None], like: Row, lengths: list[int], apart: bool = False
) -> list[Row]:
    """``ys[p][i] = xs[i][p]``; `lengths` are those of the ys, which lie one after the other.

    A missing x is zero.
    """
    inner = like.shape[1:]
    if apart and None not in xs and math.prod(inner) * like.dtype.itemsize >= _LONG:
        return _transposed_apart(b, xs, like, lengths)
    packed = b.new((sum(lengths), *inner), like.dtype)
    starts = [0, *itertools.accumulate(lengths)]
    if None in xs:
        b.emit("fill", [], [packed], floats=(0.0,))
    for i, x in enumerate(xs):
        p = 0
        while x is not None and p < x.shape[0]:
            # Places of one sequence are equally far apart as long as the ys are equally long.
            end = p
            while end < x.shape[0] and lengths[end] == lengths[p]:
                end += 1
            places = slice(starts[p] + i, starts[end - 1] + i + 1, lengths[p])
            b.copy_to(b.slice(x, slice(p, end)), b.slice(packed, places))
            p = end
    return [b.slice(packed, slice(*pair)) for pair in itertools.pairwise(starts)]


def _transposed_apart(b: Builder, xs: list[Row], like: Row, lengths: list[int]) -> list[Row]:
    """The same, each y in memory of its own: it is handed out without a copy."""
    ys = [b.new((n, *like.shape[1:]), like.dtype) for n in lengths]
    for i, x in enumerate(xs):
        for p in range(x.shape[0]):
            b.copy_to(b.slice(x, slice(p, p + 1)), b.slice(ys[p], slice(i, i + 1)))
    return ys


@function(BASE + "transpose_sequence.TransposeSequence")
class TransposeSequence(MovesData):
    """From one array per sequence to one per position, and back; the lengths are in the key."""

    def forward(b, node, xs):
        return _transposed(b, xs, xs[0], [s[0] for s in node.out_shapes])

    def backward(b, node, xs, ys, gys, wanted):
        return _transposed(b, gys, xs[0], [s[0] for s in node.in_shapes], apart=True)


@function(BASE + "permutate.Permutate")
class Permutate(MovesData):
    """Elements along an axis in another order."""

    checks = True
    arrays = ("indices",)

    def reason(node):
        if node.in_shapes[0][_axis(node)] != len(node.function.indices):
            return "not as many indices as elements"
        return MovesData.reason(node)

    def forward(b, node, xs):
        return [_permuted(b, node, xs[0], bool(node.function.inv))]

    def backward(b, node, xs, ys, gys, wanted):
        return [_permuted(b, node, gys[0], not node.function.inv)]


def _axis(node) -> int:
    # As in define-by-run, which permutes the first axis when it is given a negative one.
    return max(node.function.axis, 0)


def _permuted(b: Builder, node, x: Row, inverse: bool) -> Row:
    indices = b.contiguous(node.array(b, "indices", node.function.indices.dtype))
    axis = _axis(node)
    shape = (math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :]))
    y = b.new(x.shape, x.dtype)
    ins = [b.reshape(x, shape), indices]
    b.emit("put" if inverse else "take", ins, [b.reshape(y, shape)], (0, 0))
    return y
