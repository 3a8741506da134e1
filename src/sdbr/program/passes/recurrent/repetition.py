"""What the pass ``recurrent`` looks for: products with one matrix, and sums of products."""

from __future__ import annotations

import dataclasses

from sdbr.program._rows import extent, layout, overlap, whole
from sdbr.program._walks import users
from sdbr.program.buffers import BOUND, Row
from sdbr.program.builder import Instruction

#: Products of more rows than these gain nothing from being one (measured, docs/performance.md).
MOST_ROWS = 256
#: Fewer members are no loop: two calls of one network may be subtracted from each other, and what
#: cancels exactly when both are summed alike does not when they are summed as one.
FEWEST_STEPS = 4


@dataclasses.dataclass(eq=False)
class Total:
    """A sum of several terms, made by a tree of ``add``.

    Attributes
    ----------
    row : Row
        The sum.
    adds : list of int
        The instructions that add.
    terms : list of (Row, int or None, bool)
        Each with the instruction that makes it, where it can be made elsewhere, and whether nobody
        else reads its bytes.
    """

    row: Row
    adds: list[int]
    terms: list[tuple[Row, int | None, bool]]


def find_products(instructions: list[Instruction], kept: set[int]) -> dict[tuple, list[int]]:
    """Products that share their matrix, as lists of instructions."""
    found: dict[tuple, list[int]] = {}
    for i, instruction in enumerate(instructions):
        rows = instruction.op.by_row
        if not rows or (
            instruction.op.name == "gemm" and (instruction.ints[0] or instruction.ints[2])
        ):
            continue
        y = instruction.outs[0]
        if y.root.slot is not None or not whole(y) or not 0 < y.shape[0] <= MOST_ROWS:
            continue
        shared = [layout(x) for k, x in enumerate(instruction.ins) if k not in rows]
        key = (instruction.op.name, instruction.ints, y.dtype, *shared)
        found.setdefault(key, []).append(i)
    return {key: members for key, members in found.items() if len(members) >= FEWEST_STEPS}


def find_totals(instructions: list[Instruction], kept: set[int]) -> list[Total]:
    """Sums with terms that ops could add to what is there; none unless one has many."""
    adds = {i for i, instruction in enumerate(instructions) if _adds(instruction)}
    if not adds:
        return []
    reading, writing = users(instructions, adds)

    def maker(row: Row, at: int) -> int | None:
        """What makes a row that is read by instruction `at` alone."""
        root = row.root
        alone = root.slot is None and root.index not in kept and whole(row)
        made = writing.get(root.index, ())
        return made[0] if alone and reading[root.index] == [at] and len(made) == 1 else None

    def dies(row: Row, at: int) -> bool:
        """Whether instruction `at` alone reads the bytes of a row, which lie in the arena."""
        root = row.root
        if root.slot is not None or root.index in kept or root.index not in writing:
            return False
        return all(
            i == at or not overlap(row, *extent(x))
            for i in reading[root.index]
            for x in instructions[i].ins
            if x.root is root
        )

    makers = {i: [maker(x, i) for x in instructions[i].ins] for i in adds}
    inner = adds.intersection(made for pair in makers.values() for made in pair)
    totals = []
    worth = False  # a single term is nothing that only this pass could do
    for i in sorted(adds - inner):
        row = instructions[i].outs[0]
        if writing[row.root.index] != [i] or (row.root.slot and row.root.slot.kind == BOUND):
            continue
        total = Total(row, [], [])
        stack = [i]
        while stack:
            at = stack.pop()
            total.adds.append(at)
            for x, made in zip(instructions[at].ins, makers[at], strict=True):
                if made in adds:
                    stack.append(made)
                else:
                    total.terms.append((x, made, made is not None or dies(x, at)))
        kinds = [kind_of(instructions[made]) for _, made, _ in total.terms if made is not None]
        if any(kinds):
            totals.append(total)
        worth = worth or sum(map(bool, kinds)) >= FEWEST_STEPS
    return totals if worth else []


def _adds(instruction: Instruction) -> bool:
    if instruction.op.name != "add":
        return False
    (x, y), (z,) = instruction.ins, instruction.outs
    return (
        x.root is not y.root
        and x.is_contiguous
        and y.is_contiguous
        and x.shape == y.shape == z.shape
        and whole(z)
    )


def kind_of(instruction: Instruction) -> str:
    """How a term becomes part of a sum: as a stacked product or sum, or added; empty: neither."""
    op, ints, outs = instruction.op, instruction.ints, instruction.outs
    if not whole(outs[0]):
        return ""
    if op.name == "sum":
        x = instruction.ins[0]
        return "sum" if x.shape[0] == 1 and x.shape[1] > 0 else ""
    if op.name == "gemm" and ints == (1, 0, 0) and 0 < instruction.ins[0].shape[0] <= MOST_ROWS:
        return "outer"
    if "accumulate" in op.ints:
        return "" if ints[op.ints.index("accumulate")] else "added"
    return "added" if op.name == "linear" and len(instruction.ins) == 2 and ints == (0,) else ""
