"""Outputs that take over the memory of an input."""

from __future__ import annotations

from sdbr.program._rows import whole
from sdbr.program.branches import Branches
from sdbr.program.buffers import Row
from sdbr.program.builder import Instruction


def inplace(instructions: list[Instruction], kept: set[int]) -> dict[int, Row]:
    """Find outputs that may take over the memory of an input that dies there.

    Returns
    -------
    dict
        Root row index of the output -> root row of the input.
    """
    last: dict[int, int] = {}
    first_write: dict[int, int] = {}
    used_in: dict[int, set] = {}
    branch = Branches(instructions).branch
    for i, instruction in enumerate(instructions):
        for row in instruction.ins:
            last[row.root.index] = i
            if branch[i] is not None:
                used_in.setdefault(row.root.index, set()).add(branch[i])
        for row in instruction.outs:
            last[row.root.index] = i
            first_write.setdefault(row.root.index, i)
    aliases: dict[int, Row] = {}
    for i, instruction in enumerate(instructions):
        if not (instruction.op.inplace or instruction.op.sharing):
            continue
        for y in instruction.outs:
            if y.root.slot is None:
                break
        else:
            continue
        taken: set[int] = set()
        for o, k in instruction.memory_sharing():
            x, y = instruction.ins[k], instruction.outs[o]
            if (
                y.root.slot is None
                and y.root.index not in aliases
                and first_write[y.root.index] == i
                and whole(y)
                and x.root.slot is None
                and x.root.index not in kept
                and x.root.index not in taken
                and last[x.root.index] == i
                and whole(x)
                and x.nbytes == y.nbytes
                and x.dtype == y.dtype
                and x.root is not y.root
                and first_write.get(x.root.index, i) < i
                and (branch[i] is None or _alone(branch[i], used_in[x.root.index]))
            ):
                # The other inputs must not lie in the same memory in another order.
                others = [z for j, z in enumerate(instruction.ins) if j != k and z.root is x.root]
                if all(z.strides == x.strides and z.offset == x.offset for z in others):
                    aliases[y.root.index] = x.root
                    taken.add(x.root.index)
    return aliases


def _alone(branch: tuple[int, int], used_in: set[tuple[int, int]]) -> bool:
    """Whether no other branch of the same fork uses it."""
    return all(other == branch or other[0] != branch[0] for other in used_in)
