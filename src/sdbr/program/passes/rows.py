"""What several passes need to know about rows."""

from __future__ import annotations

from sdbr.program.buffers import BOUND, BufferTable, Row
from sdbr.program.builder import ControlSlot, Instruction

#: What a program reads after its end is never dead.
NEVER = 1 << 60


def whole(row: Row) -> bool:
    """Whether a row is all of its root, in C order."""
    root = row.root
    return row is root or (row.offset == 0 and row.is_contiguous and row.nbytes == root.nbytes)


def is_bound(row: Row) -> bool:
    """Whether a row lies in memory of the caller."""
    return row.root.slot is not None and row.root.slot.kind == BOUND


def written(instruction: Instruction) -> list[int]:
    """Roots that an instruction writes, or may write: ops with effects write some inputs."""
    rows = instruction.outs
    if instruction.op.writes_inputs:
        rows = [*rows, *instruction.ins]
    if len(rows) == 1:
        return [rows[0].root.index]
    return list({row.root.index for row in rows})


def layout(row: Row) -> tuple:
    """What two equal rows have in common."""
    return row.root.index, row.offset, row.shape, row.strides


def number_key(value) -> tuple | str:
    """What two equal float attributes have in common; NaNs and zeros by their bits."""
    if type(value) is ControlSlot:
        return ("control", value.index)
    return float(value).hex()


def readers(instructions: list[Instruction]) -> dict[int, list[int]]:
    """Root -> positions of the instructions that read it."""
    found: dict[int, list[int]] = {}
    for i, instruction in enumerate(instructions):
        for x in instruction.ins:
            index = x.root.index
            if index not in found:
                found[index] = [i]
            elif found[index][-1] != i:
                found[index].append(i)
    return found


def writer_counts(instructions: list[Instruction]) -> dict[int, int]:
    """Root -> how many instructions write it."""
    counts: dict[int, int] = {}
    for instruction in instructions:
        outs = instruction.outs
        if len(outs) == 1 and not instruction.op.writes_inputs:  # most of them
            index = outs[0].root.index
            counts[index] = counts.get(index, 0) + 1
            continue
        for index in written(instruction):
            counts[index] = counts.get(index, 0) + 1
    return counts


class Replacement:
    """Roots that others take the place of: gives the rows that stand for theirs.

    Parameters
    ----------
    table : BufferTable
        Where new rows are made.
    """

    def __init__(self, table: BufferTable):
        self.table = table
        self.roots: dict[int, Row] = {}
        self.made: dict[tuple, Row] = {}

    def __bool__(self) -> bool:
        return bool(self.roots)

    def replace(self, root: Row, by: Row) -> None:
        """From now on the root `by`, which has as many bytes, stands for `root`."""
        self.roots[root.index] = by

    def of(self, row: Row) -> Row:
        """The row to use in the place of `row`."""
        by = self.roots.get(row.root.index)
        if by is None:
            return row
        if row.shape == by.shape and row.strides == by.strides and row.offset == 0:
            return by
        key = (by.index, row.offset, row.shape, row.strides)
        view = self.made.get(key)
        if view is None:
            view = self.made[key] = self.table.view(by, row.shape, row.strides, row.offset)
        return view

    def all_of(self, rows: list[Row]) -> list[Row]:
        """`of` for each row."""
        return [self.of(row) for row in rows] if self.roots else rows
