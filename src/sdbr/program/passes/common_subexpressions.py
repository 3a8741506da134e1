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
    known: dict[tuple, Instruction] = {}
    replaced = Replacement(table)
    result = []
    for i, instruction in enumerate(instructions):
        if replaced:
            instruction.ins = replaced.all_of(instruction.ins)
        for index in written(instruction):
            versions[index] = versions.get(index, 0) + 1
        age += instruction.op.name == "python"
        result.append(instruction)
        if instruction.op.effect or instruction.op.family == "random" or not instruction.outs:
            continue
        if not all(writers[y.root.index] == 1 and whole(y) for y in instruction.outs):
            continue
        key = (
            instruction.op.opcode,
            tuple(
                (
                    *layout(x),
                    versions.get(x.root.index, 0),
                    age if x.root.slot is not None and x.root.slot.kind == BOUND else 0,
                )
                for x in instruction.ins
            ),
            instruction.ints,
            tuple(map(number_key, instruction.floats)),
            tuple((y.shape, y.dtype.str) for y in instruction.outs),
        )
        first = known.setdefault(key, instruction)
        if first is instruction or any(
            y.root.slot is not None or y.root.index in kept for y in instruction.outs
        ):
            continue
        size = sum(y.nbytes for y in first.outs)
        there = max(last.get(y.root.index, -1) for y in first.outs)
        if size > SMALL and i - there > NEAR:
            known[key] = instruction
            continue
        for y, by in zip(instruction.outs, first.outs, strict=True):
            replaced.replace(y.root, by.root)
            last[by.root.index] = max(last.get(by.root.index, -1), last.get(y.root.index, -1))
        result.pop()
    return result
