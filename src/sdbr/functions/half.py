"""float16: a function computes in float32, and what it gives is rounded, as Chainer's arrays are.

NumPy has no arithmetic in half precision either: each of its loops goes by way of float32 and
rounds what it stores. A function row here rounds its results alone, so that it is a rounding or two
off Chainer, which rounds arrays on the way as well, and sums over the first axis after each term.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from sdbr.functions.registry import HALF, FunctionRow, Node
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder, ControlSlot
from sdbr.program.machine import Machine

import numpy as np

SINGLE = np.dtype("f4")


def row_for(
    row: type[FunctionRow] | None, node: Node, machine: Machine
) -> type[FunctionRow] | None:
    """The function row that takes `node`: another one where its inputs are float16."""
    if row is None or not row.half or not machine.widens or HALF not in node.in_dtypes:
        return row
    return _halved(row)


def why_not(row: type[FunctionRow], node: Node) -> str | None:
    """Why a row of `row_for` cannot take the numbers on the node, which are known by now."""
    if HALF in node.in_dtypes and any(
        isinstance(node.slots.get(s), ControlSlot) for s in row.rounds
    ):
        return "a float that changes meets float16"
    return None


_instead: dict[type[FunctionRow], type[FunctionRow]] = {}


def in_the_place_of(row: type[FunctionRow]) -> Callable:
    """Let another row compute in the place of `row` where float16 is wanted."""

    def note(other: type[FunctionRow]) -> type[FunctionRow]:
        _instead[row] = other
        return other

    return note


class _SingleNode(Node):
    """A node as it would be in float32; rows of that stand for those in float16."""

    __slots__ = ("halves", "of", "row")

    def __init__(self, of: Node, row: type[FunctionRow]) -> None:
        super().__init__(
            of.function,
            of.in_shapes,
            _single_dtypes(of.in_dtypes),
            of.out_shapes,
            _single_dtypes(of.out_dtypes),
            of.requires_grad,
            of.slots,
            of.train,
        )
        self.of, self.row = of, row
        self.state, self.gap, self.overwritten = of.state, of.gap, of.overwritten
        self.halves: dict[int, Row] = {}  # row index -> the row in float16 that it was made of

    def single(self, b: Builder, row: Row | None) -> Row | None:
        """`row` in float32."""
        if row is None or row.dtype != HALF:
            return row
        wide = b.cast(row, SINGLE)
        self.halves[wide.index] = row
        return wide

    def rounded(self, b: Builder, row: Row) -> Row:
        """See `Node.rounded`."""
        return b.cast(b.cast(row, HALF), SINGLE)

    def scalar(self, attribute: str) -> float | ControlSlot:
        """See `Node.scalar`."""
        value = super().scalar(attribute)
        if attribute not in self.row.rounds:
            return value
        with np.errstate(over="ignore"):
            return float(np.float16(value))

    def may_change(self, b: Builder, *rows: Row) -> bool:
        """See `Node.may_change`: of the rows in float16. What was cast in the forward is a copy."""
        return self.of.may_change(b, *[self.halves.get(row.index, row) for row in rows])


def _single_dtypes(dtypes: Sequence[np.dtype]) -> tuple[np.dtype, ...]:
    return tuple([SINGLE if d == HALF else d for d in dtypes])


@functools.cache
def _halved(row: type[FunctionRow]) -> type[FunctionRow]:
    """A function row that computes what `row` does of float32, and rounds its results."""
    row = _instead.get(row, row)

    class Halved(FunctionRow):
        checks, arrays, scalars, positive = row.checks, row.arrays, row.scalars, row.positive
        structural, nested, typed = row.structural, row.nested, row.typed
        updated, rounds, draws, draws_once = row.updated, row.rounds, row.draws, row.draws_once

        def reason(node):
            wanted = [SINGLE if i in row.singles else HALF for i in range(len(node.in_dtypes))]
            wanted += [HALF] * len(node.out_dtypes)
            found = (*node.in_dtypes, *node.out_dtypes)
            if any(d.kind == "f" and d != w for d, w in zip(found, wanted, strict=True)):
                return "inputs of mixed dtypes: " + ", ".join(d.name for d in node.in_dtypes)
            return row.reason(_SingleNode(node, row))

        def forward(b, node, xs):
            single = _SingleNode(node, row)
            ys = row.forward(b, single, [single.single(b, x) for x in xs])
            node.python = single.python
            return [b.cast(y, d) for y, d in zip(ys, node.out_dtypes, strict=True)]

        def backward(b, node, xs, ys, gys, wanted):
            single = _SingleNode(node, row)
            wide = [[single.single(b, row) for row in rows] for rows in (xs, ys, gys)]
            found = row.backward(b, single, *wide, wanted)
            return [g if g is None else b.cast(g, x.dtype) for g, x in zip(found, xs, strict=True)]

    Halved.__name__ = Halved.__qualname__ = f"Half{row.__name__}"
    return Halved
