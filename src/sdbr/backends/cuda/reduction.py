"""Reductions and softmax of C-contiguous x[outer, n, inner]."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, contiguous, suffix
from sdbr.backends.cuda.launch import Launches
from sdbr.backends.cuda.team import by_dtype, rows_at_a_time
from sdbr.ops.op import Op


def prepare(
    op: Op, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> Launches:
    """The launch of an op of the family ``reduction``.

    Raises
    ------
    BackendError
        For gaps.
    """
    contiguous(op.name, [*ins, *outs])
    outer, n, inner = ins[0][1]
    rows = outer * inner
    lanes = rows_at_a_time(rows, n, inner)
    return (by_dtype(op.name, suffix(ins[0]), (outer, n, inner, lanes), -(-rows // lanes)),)
