"""Reductions and softmax of C-contiguous x[outer, n, inner]."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, contiguous, suffix
from sdbr.backends.cuda.launch import Launches
from sdbr.backends.cuda.team import by_dtype, rows_at_a_time
from sdbr.ops.op import Op

_IN_PARTS = ("sum", "mean", "max", "min")
#: Elements of a long row that a team takes at least, and how many teams there may be. Not measured.
_PART, _TEAMS = 4096, 1024


def prepare(
    op: Op, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> Launches:
    """The launches of an op of the family ``reduction``.

    Raises
    ------
    BackendError
        For gaps.
    """
    contiguous(op.name, [*ins, *outs])
    outer, n, inner = ins[0][1]
    rows = outer * inner
    parts = min(n // _PART, _TEAMS // max(1, rows))
    if op.name in _IN_PARTS and inner == 1 and parts > 1:
        numbers, dtype = (rows, n, parts), suffix(ins[0])
        return (
            by_dtype(f"{op.name}_parts", dtype, numbers, rows * parts, work=rows * parts),
            by_dtype(f"{op.name}_of_parts", dtype, numbers, rows, work=rows * parts),
        )
    lanes = rows_at_a_time(rows, n, inner)
    return (by_dtype(op.name, suffix(ins[0]), (outer, n, inner, lanes), -(-rows // lanes)),)
