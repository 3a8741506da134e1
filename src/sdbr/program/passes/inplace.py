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
        taken: set[int] = set()
        for o, k in instruction.memory_sharing():
            x, y = instruction.ins[k], instruction.outs[o]
            if (
                y.root.slot is None
                and y.root.index not in aliases
                and first_write[y.root.index] == i
                and _whole(y)
                and x.root.slot is None
                and x.root.index not in kept
                and x.root.index not in taken
                and last[x.root.index] == i
                and _whole(x)
                and x.nbytes == y.nbytes
                and x.dtype == y.dtype
                and x.root is not y.root
                and first_write.get(x.root.index, i) < i
            ):
                # The other inputs must not lie in the same memory in another order.
                others = [z for j, z in enumerate(instruction.ins) if j != k and z.root is x.root]
                if all(z.strides == x.strides and z.offset == x.offset for z in others):
                    aliases[y.root.index] = x.root
                    taken.add(x.root.index)
    return aliases


def _whole(row: Row) -> bool:
    return row.offset == 0 and row.nbytes == row.root.nbytes and row.is_contiguous
