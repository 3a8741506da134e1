"""Ops on constants, computed when the program is built."""

from __future__ import annotations

from sdbr.program._rows import whole, written
from sdbr.program._walks import constant_roots
from sdbr.program.buffers import BufferTable, Row
from sdbr.program.builder import ControlSlot, Instruction

import numpy as np

#: Bytes of a constant that a program may get; larger ones are computed at each run.
LARGEST = 1 << 16


def constant_folding(
    instructions: list[Instruction], kept: set[int], table: BufferTable
) -> list[Instruction]:
    """Compute now what depends on nothing but constants of the table and numbers that stay.

    A ``fill`` becomes one number that is repeated, where all its readers take that.

    Parameters
    ----------
    instructions : list of Instruction
    kept : set of int
        Root row indices that are read after the program.
    table : BufferTable
    """
    if not _starts(instructions, table.private):
        return instructions
    return _Folding(instructions, kept, table).run()


def _starts(instructions: list[Instruction], private: set[int]) -> bool:
    """Whether an op may be the first of those that depend on constants alone."""
    for instruction in instructions:
        if instruction.op.name == "fill":
            if instruction.outs[0].root.slot is None:
                return True
        elif private:
            for x in instruction.ins:
                slot = x.root.slot
                if slot is not None and slot.index in private:
                    return True
    return False


class _Folding:
    def __init__(self, instructions, kept: set[int], table: BufferTable):
        self.instructions = instructions
        self.kept = kept
        self.table = table
        possible = constant_roots(instructions, table.private)
        self.writers: dict[int, int] = dict.fromkeys(possible, 0)  # root -> how many write it
        self.readers: dict[int, list[Instruction]] = {index: [] for index in possible}
        self.note_uses()
        self.values: dict[int, np.ndarray] = {}  # root -> its array, or one number for a fill
        self.made: dict[tuple, Row] = {}

    def note_uses(self) -> None:
        """Who writes and who reads what may be constant, which is little of most programs."""
        for instruction in self.instructions:
            for x in instruction.ins:
                if x.root.index in self.readers:
                    self.readers[x.root.index].append(instruction)
            for index in written(instruction):
                if index in self.writers:
                    self.writers[index] += 1

    def run(self) -> list[Instruction]:
        result = []
        values = self.values
        for instruction in self.instructions:
            for x in instruction.ins:
                if x.root.index in values:
                    instruction.ins = [self.row(x) for x in instruction.ins]
                    break
            if not (self.is_candidate(instruction) and self.fold(instruction)):
                result.append(instruction)
        return result

    def is_candidate(self, instruction: Instruction) -> bool:
        for x in instruction.ins:
            if not self.table.is_private(x.root.slot):
                return False
        op = instruction.op
        if op.effect or not instruction.outs:
            return False
        if any(type(value) is ControlSlot for value in instruction.floats):
            return False
        return all(
            y.root.slot is None
            and y.root.index not in self.kept
            and self.writers[y.root.index] == 1
            and whole(y)
            for y in instruction.outs
        )

    def fold(self, instruction: Instruction) -> bool:
        y = instruction.outs[0]
        if instruction.op.name == "fill":
            if not self.takes_repeated(y):
                return False
            self.values[y.root.index] = np.full((), instruction.floats[0], y.dtype)
            return True
        if sum(y.nbytes for y in instruction.outs) > LARGEST:
            return False
        outs = _run(instruction)
        if outs is None:
            return False
        for y, array in zip(instruction.outs, outs, strict=True):
            self.values[y.root.index] = array
        return True

    def takes_repeated(self, y: Row) -> bool:
        """Whether all readers of a row take one with stride 0."""
        return y.dtype.kind == "f" and all(
            instruction.op.step for instruction in self.readers[y.root.index]
        )

    def row(self, x: Row) -> Row:
        """The row to read instead of `x`."""
        array = self.values.get(x.root.index)
        if array is None:
            return x
        key = (x.root.index, x.offset, x.shape, x.strides)
        row = self.made.get(key)
        if row is None:
            root = self.table.constant(array)
            if array.ndim == 0 and x.root.shape != ():
                row = self.table.view(root, x.shape, [0] * x.ndim)
            elif (x.shape, x.offset) == (root.shape, 0) and x.strides == root.strides:
                row = root
            else:
                row = self.table.view(root, x.shape, x.strides, x.offset)
            self.made[key] = row
        return row


def _run(instruction: Instruction) -> list[np.ndarray] | None:
    """The outputs of an op on constants; None where it fails: it will fail in the program, too."""
    ins = [
        np.ndarray(x.shape, x.dtype, x.root.slot.array, x.offset, x.strides)
        for x in instruction.ins
    ]
    outs = [np.zeros(y.shape, y.dtype) for y in instruction.outs]
    attributes = instruction.op.attributes(instruction.ints, instruction.floats)
    try:
        instruction.op.compute(ins, outs, attributes)
    except (IndexError, ValueError):
        return None
    return outs
