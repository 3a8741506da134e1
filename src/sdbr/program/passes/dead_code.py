"""Ops whose results nobody reads."""

from __future__ import annotations

from sdbr.program._walks import live
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
    return live(instructions, kept)
