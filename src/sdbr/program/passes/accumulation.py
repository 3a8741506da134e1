"""Sums of which one term is a matrix product: the product is added by the op that makes it."""

from __future__ import annotations

from sdbr.program.buffers import BufferTable, Row
from sdbr.program.builder import Instruction
from sdbr.program.passes.rows import is_bound, readers, whole


def accumulation(
    instructions: list[Instruction], kept: set[int], table: BufferTable
) -> list[Instruction]:
    """Turn ``s = a + gemm(...)`` into a ``gemm`` that adds to `a`, which nobody else reads.

    The other term is then made in the memory of the sum: gradients that are collected from
    several functions need one array less, and one pass over memory less.

    Parameters
    ----------
    instructions : list of Instruction
    kept : set of int
        Root row indices that are read after the program.
    table : BufferTable
    """
    if not any(instruction.op.name == "add" for instruction in instructions):
        return instructions
    return _Sums(instructions, kept, table).run()


class _Sums:
    """One walk over the sums of a program.

    Attributes
    ----------
    uses : dict of int to list of int
        Root row -> positions of its readers.
    makers : dict of int to list of int
        Root row -> positions of those that write it.
    """

    def __init__(self, instructions: list[Instruction], kept: set[int], table: BufferTable):
        self.instructions = instructions
        self.kept = kept
        self.table = table
        self.uses = readers(instructions)
        self.makers: dict[int, list[int]] = {}
        for i, instruction in enumerate(instructions):
            for y in instruction.outs:
                self.makers.setdefault(y.root.index, []).append(i)
            if instruction.op.effect:
                for x in instruction.ins:  # may be written
                    self.makers.setdefault(x.root.index, []).append(i)

    def run(self) -> list[Instruction]:
        dropped = {
            at
            for at, instruction in enumerate(self.instructions)
            if instruction.op.name == "add" and self.joins(at, instruction)
        }
        return [instruction for i, instruction in enumerate(self.instructions) if i not in dropped]

    def is_term(self, row: Row, at: int) -> bool:
        """Whether a row is made for the sum at a place alone."""
        root = row.root
        return (
            root.slot is None
            and root.index not in self.kept
            and whole(row)
            and self.uses.get(root.index) == [at]
            and bool(self.makers.get(root.index))
        )

    def joins(self, at: int, instruction: Instruction) -> bool:
        """Let the product that makes a term add it to the other one, where that can be."""
        total = instruction.outs[0]
        x, y = instruction.ins
        if x.root is y.root or not whole(total) or is_bound(total):
            return False
        if not (self.is_term(x, at) and self.is_term(y, at)):
            return False
        if self.makers[total.root.index] != [at]:
            return False
        first, second = sorted((x, y), key=lambda row: self.makers[row.root.index][-1])
        last = self.makers[second.root.index]
        product = self.instructions[last[-1]]
        if len(last) != 1 or product.op.name != "gemm" or product.ints[2]:
            return False
        others = [self.instructions[i] for i in self.makers[first.root.index]]
        if any(_unmovable(maker, first.root) for maker in others):
            return False
        for maker in others:
            maker.outs = [_on(self.table, row, first.root, total) for row in maker.outs]
        product.outs = [_on(self.table, product.outs[0], second.root, total)]
        product.ints = (*product.ints[:2], 1)
        if instruction.label not in product.label:
            product.label += f" + {instruction.label}"
        self.makers[total.root.index] = [*self.makers[first.root.index], last[0]]
        return True


def _unmovable(maker: Instruction, root: Row) -> bool:
    """Whether the output of an op cannot simply lie elsewhere."""
    return maker.op.python or any(x.root is root for x in maker.ins)


def _on(table: BufferTable, row: Row, root: Row, total: Row) -> Row:
    """`row` of `root` as a row of the sum."""
    if row.root is not root:
        return row
    base = total.root
    if row.shape == base.shape and row.strides == base.strides and row.offset == 0:
        return base
    return table.view(base, row.shape, row.strides, row.offset)
