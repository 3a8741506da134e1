"""Ops whose results nobody reads."""

from __future__ import annotations

from sdbr.program.buffers import BufferTable
from sdbr.program.builder import Instruction


def dead_code(
    instructions: list[Instruction], kept: set[int], table: BufferTable | None = None
) -> list[Instruction]:
    """Drop instructions whose results nobody reads.

    Parameters
    ----------
    instructions : list of Instruction
    kept : set of int
        Root row indices that are read after the program. Rows in slots count as kept.
    table : BufferTable, optional
        Not used.
    """
    live = set(kept)
    result = []
    for instruction in reversed(instructions):
        if instruction.op.effect or not instruction.outs or _is_read(instruction, live):
            result.append(instruction)
            for x in instruction.ins:
                live.add(x.root.index)
    result.reverse()
    return result


def _is_read(instruction: Instruction, live: set[int]) -> bool:
    """Whether somebody reads what an instruction makes."""
    for y in instruction.outs:
        root = y.root
        if root.slot is not None or root.index in live:
            return True
    return False
