"""Ops that compute again what is there."""

from __future__ import annotations

from sdbr.program.buffers import BOUND, BufferTable
from sdbr.program.builder import Instruction
from sdbr.program.passes.rows import (
    NEVER,
    Replacement,
    layout,
    number_key,
    readers,
    whole,
    writer_counts,
    written,
)

#: A result that would be gone by then is computed again, unless it is small (bytes) or the op that
#: needs it is near (instructions): keeping it would cost memory.
SMALL = 4096
NEAR = 24


def common_subexpressions(
    instructions: list[Instruction], kept: set[int], table: BufferTable
) -> list[Instruction]:
    """Let the first of equal ops (same op, inputs, attributes) serve for all.

    Parameters
    ----------
    instructions : list of Instruction
    kept : set of int
        Root row indices that are read after the program.
    table : BufferTable
    """
    writers = writer_counts(instructions)
    last = {index: positions[-1] for index, positions in readers(instructions).items()}
    last.update(dict.fromkeys(kept, NEVER))
    versions: dict[int, int] = {}
    age = 0  # what the caller has bound may be new after each Python op
    known: dict[tuple, list[tuple[Instruction, tuple]]] = {}
    replaced = Replacement(table)
    result = []
    for i, instruction in enumerate(instructions):
        if replaced:
            instruction.ins = replaced.all_of(instruction.ins)
        for index in written(instruction):
            versions[index] = versions.get(index, 0) + 1
        age += instruction.op.python
        result.append(instruction)
        if instruction.op.effect or not instruction.outs:
            continue
        if not all(writers[y.root.index] == 1 and whole(y) for y in instruction.outs):
            continue
        # Whole keys are made only for the few ops that could be equal.
        bucket = known.setdefault(
            (instruction.op.opcode, *[(x.root.index, x.offset) for x in instruction.ins]), []
        )
        moment = _moment(instruction, versions, age)
        first = next((x for x, then in bucket if then == moment and _equal(x, instruction)), None)
        if first is None:
            bucket.append((instruction, moment))
            continue
        if any(y.root.slot is not None or y.root.index in kept for y in instruction.outs):
            continue
        size = sum(y.nbytes for y in first.outs)
        there = max(last.get(y.root.index, -1) for y in first.outs)
        if size > SMALL and i - there > NEAR:
            bucket.remove((first, moment))
            bucket.append((instruction, moment))
            continue
        for y, by in zip(instruction.outs, first.outs, strict=True):
            replaced.replace(y.root, by.root)
            last[by.root.index] = max(last.get(by.root.index, -1), last.get(y.root.index, -1))
        result.pop()
    return result


def _moment(instruction: Instruction, versions: dict[int, int], age: int) -> tuple:
    """What tells contents of the inputs apart: how often they were written, and by Python ops."""
    moment = []
    for x in instruction.ins:
        root = x.root
        moment.append(versions.get(root.index, 0))
        moment.append(age if root.slot is not None and root.slot.kind == BOUND else 0)
    return tuple(moment)


def _equal(a: Instruction, b: Instruction) -> bool:
    """Whether two instructions compute the same, but for what was written in between."""
    return (
        a.op is b.op
        and a.ints == b.ints
        and [number_key(x) for x in a.floats] == [number_key(x) for x in b.floats]
        and [(y.shape, y.dtype) for y in a.outs] == [(y.shape, y.dtype) for y in b.outs]
        and [layout(x) for x in a.ins] == [layout(x) for x in b.ins]
    )
