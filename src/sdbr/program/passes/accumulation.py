"""Sums of which one term is a matrix product: the product is added by the op that makes it."""

from __future__ import annotations

from sdbr.program._rows import is_bound, whole
from sdbr.program.buffers import BufferTable, Row
from sdbr.program.builder import Instruction


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
    adds = [at for at, instruction in enumerate(instructions) if instruction.op.name == "add"]
    return _Sums(instructions, kept, table, adds).run() if adds else instructions


class _Sums:
    """One walk over the sums of a program.

    Attributes
    ----------
    adds : list of int
        Positions of the sums.
    uses : dict of int to list of int
        Root row of a term or sum -> positions of its readers.
    makers : dict of int to list of int
        Root row of a term or sum -> positions of those that write it.
    place : dict of int to Row
        Root row -> the sum that lies there now. Terms of one sum after the other follow when all
        are known: they would be moved again by each.
    sums : set of int
        The roots of sums that products are added to.
    """

    def __init__(
        self,
        instructions: list[Instruction],
        kept: set[int],
        table: BufferTable,
        adds: list[int],
    ):
        self.instructions = instructions
        self.kept = kept
        self.table = table
        self.adds = adds
        self.uses: dict[int, list[int]] = {}
        for at in adds:
            for row in (*instructions[at].ins, *instructions[at].outs):
                self.uses[row.root.index] = []
        self.place: dict[int, Row] = {}
        self.sums: set[int] = set()
        self.makers: dict[int, list[int]] = {index: [] for index in self.uses}
        for i, instruction in enumerate(instructions):
            for x in instruction.ins:
                index = x.root.index
                if index in self.uses:
                    self.uses[index].append(i)
                    if instruction.op.effect:  # may be written
                        self.makers[index].append(i)
            for y in instruction.outs:
                if y.root.index in self.makers:
                    self.makers[y.root.index].append(i)

    def run(self) -> list[Instruction]:
        dropped = {at for at in self.adds if self.joins(at, self.instructions[at])}
        if not dropped:
            return self.instructions
        self.move()
        return [instruction for i, instruction in enumerate(self.instructions) if i not in dropped]

    def move(self) -> None:
        """Let the terms lie where the last sum lies that they became part of."""
        # A sum is found after its terms, so the last ones come first here.
        for index, total in reversed(self.place.items()):
            self.place[index] = self.place.get(total.index, total)
        for instruction in self.instructions:
            if any(y.root.index in self.place for y in instruction.outs):
                instruction.outs = [self.moved(y) for y in instruction.outs]

    def moved(self, row: Row) -> Row:
        """`row` as a row of the sum that it is a term of."""
        base = self.place.get(row.root.index)
        if base is None:
            return row
        if row.shape == base.shape and row.strides == base.strides and row.offset == 0:
            return base
        return self.table.view(base, row.shape, row.strides, row.offset)

    def is_term(self, row: Row, at: int) -> bool:
        """Whether a row is made for the sum at a place alone."""
        root = row.root
        return (
            root.slot is None
            and root.index not in self.kept
            and whole(row)
            and self.uses[root.index] == [at]
            and bool(self.makers[root.index])
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
        makers = self.makers[first.root.index]
        # What lies in one sum already can lie in the next one.
        if first.root.index not in self.sums and any(
            _unmovable(self.instructions[i], first.root) for i in makers
        ):
            return False
        self.sums.add(total.root.index)
        self.place[first.root.index] = self.place[second.root.index] = total.root
        product.ints = (*product.ints[:2], 1)
        if instruction.label not in product.label:
            product.label += f" + {instruction.label}"
        makers.append(last[0])
        self.makers[total.root.index] = makers
        return True


def _unmovable(maker: Instruction, root: Row) -> bool:
    """Whether the output of an op cannot simply lie elsewhere."""
    return maker.op.python or any(x.root is root for x in maker.ins)
