"""Outputs that take over the memory of an input."""

from __future__ import annotations

from sdbr.program.buffers import Row
from sdbr.program.builder import Instruction


def inplace(instructions: list[Instruction], kept: set[int]) -> dict[int, Row]:
    """Find outputs that may take over the memory of an input that dies there.

    Returns
    -------
    dict
        Root row index of the output -> root row of the input.
    """
    last: dict[int, int] = {}
    first_write: dict[int, int] = {}
    for i, instruction in enumerate(instructions):
        for row in instruction.ins:
            last[row.root.index] = i
        for row in instruction.outs:
            last[row.root.index] = i
            first_write.setdefault(row.root.index, i)
    aliases: dict[int, Row] = {}
    for i, instruction in enumerate(instructions):
        if not instruction.op.inplace or not instruction.outs:
            continue
        y = instruction.outs[0]
        if y.root.slot is not None or first_write[y.root.index] != i or not _whole(y):
            continue
        for k in instruction.op.inplace:
            x = instruction.ins[k]
            if (
                x.root.slot is None
                and x.root.index not in kept
                and last[x.root.index] == i
                and _whole(x)
                and x.strides == y.strides
                and x.dtype == y.dtype
                and x.root is not y.root
                and first_write.get(x.root.index, i) < i
            ):
                # The other inputs must not lie in the same memory in another order.
                others = [o for j, o in enumerate(instruction.ins) if j != k and o.root is x.root]
                if all(o.strides == x.strides and o.offset == x.offset for o in others):
                    aliases[y.root.index] = x.root
                    break
    return aliases


def _whole(row: Row) -> bool:
    return row.offset == 0 and row.nbytes == row.root.nbytes and row.is_contiguous
