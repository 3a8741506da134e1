"""Function rows for elements chosen by indices: get_item, scatter_add; where."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from sdbr.devices.arrays import ARRAYS, on_host
from sdbr.functions.common import data_reason, is_moved
from sdbr.functions.registry import FunctionRow, float_reason, function
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder
from sdbr.trace.values import Hole

import numpy as np

BASE = "chainer.functions.array."

FULL = slice(None)


# --- what an index selects ----------------------------------------------------------------------
def key_reason(key: Sequence) -> str | None:
    """Why an index, with arrays in their places, cannot be native, or None when it can."""
    for s in key:
        if s is None or s is Ellipsis or isinstance(s, slice):
            continue
        if isinstance(s, (bool, np.bool_)):
            return "an index of type bool"
        if isinstance(s, (int, np.integer)):
            continue
        if not isinstance(s, (list, *ARRAYS)):
            return f"an index of type {type(s).__name__}"
        array = np.asarray(on_host(s))
        if not array.size:
            continue
        if array.dtype.kind not in "biu":
            return f"an index of dtype {array.dtype.name}"
        if array.dtype.kind == "b" and array.ndim == 0:
            return "an index of type bool"
    return None


def _arrays(b: Builder, s) -> list[Row]:
    """The index arrays that an entry of an index stands for: a mask is one per axis."""
    if isinstance(s, Row):
        return [s]
    array = np.asarray(on_host(s))
    if not array.size and array.dtype.kind == "f":
        array = array.astype(np.intp)
    parts = array.nonzero() if array.dtype.kind == "b" else (array,)
    # Not `ascontiguousarray`, which gives an array without dimensions one.
    return [b.constant(np.asarray(part, order="C")) for part in parts]


class Selection:
    """What an index selects of an array: a view by its basic part, then places in that view.

    The view is arranged as ``[before, n0, n1, ..., after]``, where the indexed axes stand side by
    side; the places are one index array for each of those.

    Parameters
    ----------
    b : Builder
        Takes up what the index arrays have to be brought into.
    shape : tuple of int
        Of the array.
    key : sequence
        ints, slices, None, Ellipsis, lists, arrays of the trace and rows.
    """

    def __init__(self, b: Builder, shape: Sequence[int], key: Sequence):
        entries: list = []
        for s in key:
            basic = s is None or s is Ellipsis or isinstance(s, (int, np.integer, slice))
            entries += [s] if basic else _arrays(b, s)
        dots = [i for i, e in enumerate(entries) if e is Ellipsis]
        used = sum(e is not None and e is not Ellipsis for e in entries)
        at = dots[0] if dots else len(entries)
        entries[at : at + len(dots)] = [FULL] * (len(shape) - used)
        self.basic = tuple(FULL if isinstance(e, Row) else e for e in entries)
        self.whole = all(type(e) is slice and e == FULL for e in self.basic)
        rows = [e for e in entries if isinstance(e, Row)]
        self.indices = rows
        self.shape = np.broadcast_shapes(*[r.shape for r in rows]) if rows else ()
        m = math.prod(self.shape)
        self.places = [b.reshape(b.broadcast(r, self.shape), (m,)) for r in rows]
        # Where the result has the axes of the index arrays: an int is one of them to NumPy.
        chosen = [i for i, e in enumerate(entries) if isinstance(e, (Row, int, np.integer))]
        together = chosen and chosen[-1] - chosen[0] + 1 == len(chosen)
        front = entries[: chosen[0]] if together else []
        self._first = len(front)
        # Axes of the view: those that are indexed, and the others.
        kept = [e for e in entries if not isinstance(e, (int, np.integer))]
        self._indexed = [i for i, e in enumerate(kept) if isinstance(e, Row)]
        self._others = [i for i, e in enumerate(kept) if not isinstance(e, Row)]
        run = self._indexed and self._indexed[-1] - self._indexed[0] + 1 == len(self._indexed)
        self._before = self._indexed[0] if run else 0
        self._order = list(range(len(kept))) if run else [*self._indexed, *self._others]

    def view(self, b: Builder, x: Row) -> Row:
        """The basic part of the selection."""
        return x if self.whole else b.slice(x, self.basic)

    def arranged(self, b: Builder, view: Row) -> Row | None:
        """The view as ``[before, n0, n1, ..., after]``, or None where only a copy could be."""
        view = b.transpose(view, self._order)
        i, j = self._before, self._before + len(self._indexed)
        outer = _merged(view.shape[:i], view.strides[:i], 0)
        inner = _merged(view.shape[j:], view.strides[j:], view.dtype.itemsize)
        if outer is None or inner is None:
            return None
        shape = (outer[0], *view.shape[i:j], inner[0])
        return b.table.view(view, shape, (outer[1], *view.strides[i:j], inner[1]))

    def copied(self, b: Builder, view: Row) -> Row:
        """A copy of the view, arranged."""
        return self.arranged(b, b.transpose(b.copy(b.transpose(view, self._order)), self._back()))

    def _back(self) -> list[int]:
        return np.argsort(self._order).tolist()

    def _moves(self) -> list[int]:
        """For each axis of the result its axis in ``[before, places, after]``."""
        n, i = len(self.shape), self._before
        others = [k if k < i else k + n for k in range(len(self._others))]
        places = list(range(i, i + n))
        return [*others[: self._first], *places, *others[self._first :]]

    def result(self, b: Builder, rows: Row, view: Row) -> Row:
        """``[before, m, after]`` as the result of the index."""
        moves = self._moves()
        others = [view.shape[k] for k in self._others]
        shape = [*others[: self._before], *self.shape, *others[self._before :]]
        return b.transpose(b.reshape(rows, shape), moves)

    def rows(self, b: Builder, y: Row) -> Row:
        """The result of the index as ``[before, m, after]``."""
        y = b.transpose(y, np.argsort(self._moves()).tolist())
        i, n = self._before, len(self.shape)
        shape = (math.prod(y.shape[:i]), math.prod(self.shape), math.prod(y.shape[i + n :]))
        return b.reshape(y, shape)

    # --- instructions --------------------------------------------------------------------------
    def take(self, b: Builder, x: Row) -> Row:
        """``x[key]``."""
        view = self.view(b, x)
        if not self.places:
            return view
        side = self.arranged(b, view) or self.copied(b, view)
        rows = b.new((side.shape[0], math.prod(self.shape), side.shape[-1]), x.dtype)
        b.emit("take", [side, *self.places], [rows], (0, 0))
        return self.result(b, rows, view)

    def spread(self, b: Builder, gy: Row, shape: Sequence[int]) -> Row:
        """Zeros of `shape` to which `gy` is added at the key."""
        if not self.places:
            gx = b.new(shape, gy.dtype)
            if gy.size < gx.size:
                b.emit("fill", [], [gx], floats=(0.0,))
            b.copy_to(gy, self.view(b, gx))
            return gx
        # Only its shape matters: nothing is read from there.
        like = self.view(b, b.table.root(shape, gy.dtype, None, ""))
        sums = b.new([like.shape[k] for k in self._order], gy.dtype)
        part = b.transpose(sums, self._back())
        side = self.arranged(b, part)
        b.emit("scatter_add", [self.rows(b, gy), *self.places], [side], (0, 0, 0))
        if self.whole:
            return part
        gx = b.fill(shape, gy.dtype, 0.0)
        b.copy_to(part, self.view(b, gx))
        return gx

    def add(self, b: Builder, a: Row, x: Row) -> Row:
        """A copy of `a` with `x` added at the key."""
        y = b.copy(a)
        view = self.view(b, y)
        if not self.places:
            b.emit("add", [self.view(b, a), x], [view])
            return y
        side = self.arranged(b, view)
        target = side or self.copied(b, view)
        b.emit("scatter_add", [self.rows(b, x), *self.places], [target], (1, 0, 0))
        if side is None:
            order = [view.shape[k] for k in self._order]
            b.copy_to(b.transpose(b.reshape(target, order), self._back()), view)
        return y


def _merged(shape, strides, itemsize: int) -> tuple[int, int] | None:
    """Axes as one, length and stride, or None where they do not follow each other in memory."""
    axes = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    total = math.prod(shape)
    if not axes or total == 0:
        return total, itemsize
    for (_, s), (n, t) in itertools.pairwise(axes):
        if s != n * t:
            return None
    return total, axes[-1][1]


def lower_getitem(b: Builder, args, xs: Sequence[Row]) -> Row | None:
    """``x[key]`` of user code on arrays, where the key holds index arrays; None where it cannot be.

    Parameters
    ----------
    b : Builder
    args : tuple
        The array and the key; each known array is a hole.
    xs : list of Row
        The known arrays.
    """
    x, key = args
    key = key if isinstance(key, tuple) else (key,)
    if type(x) is not Hole or any(type(s) is tuple for s in key):
        return None
    key = [xs[s.index] if type(s) is Hole else s for s in key]
    if any(r.dtype.kind not in "iu" for r in key if isinstance(r, Row)):
        return None
    x = xs[x.index]
    if not is_moved(x.dtype) or key_reason([s for s in key if not isinstance(s, Row)]):
        return None
    return Selection(b, x.shape, key).take(b, x)


# --- function rows ------------------------------------------------------------------------------
class _Selecting(FunctionRow):
    """What has `slices`; index arrays of the call are operands, others are constants."""

    checks = True
    nested = structural = ("slices",)

    @classmethod
    def selection(cls, b: Builder, node, shape) -> Selection:
        return Selection(b, shape, node.slots.get("slices", node.function.slices))


@function(BASE + "get_item.GetItem")
class GetItem(_Selecting):
    """Basic indexing gives a view; index arrays take rows; their gradients are added in order."""

    views = True

    linear = True

    def reason(node):
        slices = node.function.slices
        is_basic = not any(isinstance(s, (list, *ARRAYS)) for s in slices)
        return key_reason(slices) or data_reason(node, half=is_basic)

    def forward(b, node, xs):
        chosen = node.state["chosen"] = GetItem.selection(b, node, xs[0].shape)
        y = chosen.take(b, xs[0])
        # One item is a NumPy scalar first.
        return [b.copy(y) if not y.shape and y.root is xs[0].root else y]

    def backward(b, node, xs, ys, gys, wanted):
        chosen = node.state["chosen"]
        if node.may_change(b, *chosen.indices):  # Chainer keeps the index, not a copy of it
            chosen = GetItem.selection(b, node, xs[0].shape)
        return [chosen.spread(b, gys[0], xs[0].shape)]


@function(BASE + "scatter_add.ScatterAdd")
class ScatterAdd(_Selecting):
    """A copy of one array with another added at an index, in order."""

    linear = True

    def reason(node):
        return key_reason(node.function.slices) or float_reason(node)

    def forward(b, node, xs):
        chosen = node.state["chosen"] = ScatterAdd.selection(b, node, xs[0].shape)
        return [chosen.add(b, *xs)]

    def backward(b, node, xs, ys, gys, wanted):
        taken = node.state["chosen"].take(b, gys[0]) if 1 in wanted else None
        return [gys[0], taken]


@function(BASE + "where.Where")
class Where(FunctionRow):
    """Elements of one array or the other, as a condition says."""

    linear = True
    arrays = ("condition",)

    def reason(node):
        condition = node.function.condition
        if not isinstance(condition, ARRAYS) or condition.dtype != bool:
            return f"a condition of type {type(condition).__name__}"
        return data_reason(node)

    def forward(b, node, xs):
        c = node.state["c"] = node.array(b, "condition", bool)
        return [_chosen(b, c, *xs, node.out_shapes[0])]

    def backward(b, node, xs, ys, gys, wanted):
        g, c = gys[0], node.state["c"]
        zero = b.fill((), g.dtype, 0.0)
        grads = [None, None]
        if 0 in wanted:
            grads[0] = b.sum_to(_chosen(b, c, g, zero, g.shape), xs[0].shape)
        if 1 in wanted:
            grads[1] = b.sum_to(_chosen(b, c, zero, g, g.shape), xs[1].shape)
        return grads


def _chosen(b: Builder, c: Row, x: Row, y: Row, shape) -> Row:
    z = b.new(shape, x.dtype)
    b.emit("where", [b.broadcast(r, shape) for r in (c, x, y)], [z])
    return z
