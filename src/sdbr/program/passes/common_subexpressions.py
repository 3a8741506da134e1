"""Ops that compute again what is there."""

from __future__ import annotations

from sdbr.program.buffers import BOUND, BufferTable
from sdbr.program.builder import Instruction
from sdbr.program.passes.rows import (
    NEVER,
    Replacement,
    layout,
    number_key,
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
    last = {x.root.index: i for i, made in enumerate(instructions) for x in made.ins}
    last.update(dict.fromkeys(kept, NEVER))
    written_at: dict[int, int] = {}
    python_at = -1  # what the caller has bound may be new after each Python op
    known: dict[tuple, list[tuple[Instruction, int]]] = {}
    replaced = Replacement(table)
    result = []
    for i, instruction in enumerate(instructions):
        if replaced:
            instruction.ins = replaced.all_of(instruction.ins)
        for index in written(instruction):
            written_at[index] = i
        if instruction.op.python:
            python_at = i
        result.append(instruction)
        if instruction.op.effect or not instruction.outs or not _alone(instruction, writers):
            continue
        key = _key(instruction)
        bucket = known.get(key)
        if bucket is None:
            known[key] = [(instruction, i)]
            continue
        age = _age(instruction, written_at, python_at)
        first, at = next(
            ((x, at) for x, at in bucket if at >= age and _equal(x, instruction)), (None, -1)
        )
        if first is None:
            bucket.append((instruction, i))
            continue
        if any(y.root.slot is not None or y.root.index in kept for y in instruction.outs):
            continue
        size = sum(y.nbytes for y in first.outs)
        there = max(last.get(y.root.index, -1) for y in first.outs)
        if size > SMALL and i - there > NEAR:
            bucket.remove((first, at))
            bucket.append((instruction, i))
            continue
        for y, by in zip(instruction.outs, first.outs, strict=True):
            replaced.replace(y.root, by.root)
            last[by.root.index] = max(last.get(by.root.index, -1), last.get(y.root.index, -1))
        result.pop()
    return result


def _key(instruction: Instruction) -> tuple:
    """What equal ops have in common at least; shapes are compared only where that is the same."""
    return (
        instruction.op.opcode,
        *[(x.root.index, x.offset) for x in instruction.ins],
        *instruction.ints,
        *[number_key(x) for x in instruction.floats],
    )


def _alone(instruction: Instruction, writers: dict[int, int]) -> bool:
    """Whether all that an instruction makes is made by nobody else."""
    outs = instruction.outs
    if len(outs) == 1:  # most of them
        return writers[outs[0].root.index] == 1 and whole(outs[0])
    return all(writers[y.root.index] == 1 and whole(y) for y in outs)


def _age(instruction: Instruction, written_at: dict[int, int], python_at: int) -> int:
    """Since when its inputs hold what they hold."""
    age = -1
    for x in instruction.ins:
        root = x.root
        age = max(age, written_at.get(root.index, -1))
        if root.slot is not None and root.slot.kind == BOUND:
            age = max(age, python_at)
    return age


def _equal(a: Instruction, b: Instruction) -> bool:
    """Whether two instructions compute the same, but for what was written in between."""
    return (
        a.op is b.op
        and a.ints == b.ints
        and [number_key(x) for x in a.floats] == [number_key(x) for x in b.floats]
        and [(y.shape, y.dtype) for y in a.outs] == [(y.shape, y.dtype) for y in b.outs]
        and [layout(x) for x in a.ins] == [layout(x) for x in b.ins]
    )
