"""Ops that compute again what is there."""

from __future__ import annotations

from sdbr.program._rows import (
    NEVER,
    Replacement,
    layout,
    number_key,
    writer_counts,
    written,
)
from sdbr.program._walks import key_of_equals, last_reads
from sdbr.program.buffers import BOUND, BufferTable
from sdbr.program.builder import Instruction

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
    last = last_reads(instructions)
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
        key = key_of_equals(instruction, writers)
        if key is None:
            continue
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
