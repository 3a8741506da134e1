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
    uses = readers(instructions)
    makers: dict[int, list[int]] = {}  # root -> positions of those that write it
    for i, instruction in enumerate(instructions):
        for y in instruction.outs:
            makers.setdefault(y.root.index, []).append(i)
        if instruction.op.effect:
            for x in instruction.ins:  # may be written
                makers.setdefault(x.root.index, []).append(i)
    dropped: set[int] = set()

    def is_term(row: Row, at: int) -> bool:
        root = row.root
        return (
            root.slot is None
            and root.index not in kept
            and whole(row)
            and uses.get(root.index) == [at]
            and bool(makers.get(root.index))
        )

    for at, instruction in enumerate(instructions):
        if instruction.op.name != "add":
            continue
        total = instruction.outs[0]
        x, y = instruction.ins
        if x.root is y.root or not (is_term(x, at) and is_term(y, at) and whole(total)):
            continue
        if makers[total.root.index] != [at] or is_bound(total):
            continue
        first, second = sorted((x, y), key=lambda row: makers[row.root.index][-1])
        last = makers[second.root.index]
        product = instructions[last[-1]]
        if len(last) != 1 or product.op.name != "gemm" or product.ints[2]:
            continue
        if any(_unmovable(instructions[i], first.root) for i in makers[first.root.index]):
            continue
        for i in makers[first.root.index]:
            maker = instructions[i]
            maker.outs = [_on(table, row, first.root, total) for row in maker.outs]
        product.outs = [_on(table, product.outs[0], second.root, total)]
        product.ints = (*product.ints[:2], 1)
        if instruction.label not in product.label:
            product.label += f" + {instruction.label}"
        makers[total.root.index] = [*makers[first.root.index], last[0]]
        dropped.add(at)
    return [instruction for i, instruction in enumerate(instructions) if i not in dropped]


def _unmovable(maker: Instruction, root: Row) -> bool:
    """Whether the output of an op cannot simply lie elsewhere."""
    return maker.op.name == "python" or any(x.root is root for x in maker.ins)


def _on(table: BufferTable, row: Row, root: Row, total: Row) -> Row:
    """`row` of `root` as a row of the sum."""
    if row.root is not root:
        return row
    base = total.root
    if row.shape == base.shape and row.strides == base.strides and row.offset == 0:
        return base
    return table.view(base, row.shape, row.strides, row.offset)
