"""Runs of instructions that execute at the same time, as the op ``fork`` marks them."""

from __future__ import annotations

from sdbr.base.limits import BRANCHES
from sdbr.program.builder import Instruction

#: Most branches of one fork: so many integers has the op.
MOST = BRANCHES


class Branches:
    """Where the branches of a program lie.

    Parameters
    ----------
    instructions : list of Instruction

    Attributes
    ----------
    spans : list of (int, int)
        Per instruction the first and the last of those that may run at the same time as it does:
        itself outside of branches, all branches of its fork inside.
    branch : list of (int, int) or None
        Per instruction: the index of its fork, and which of its branches it is in.
    """

    def __init__(self, instructions: list[Instruction]):
        self.spans = [(i, i) for i in range(len(instructions))]
        self.branch: list[tuple[int, int] | None] = [None] * len(instructions)
        for i, instruction in enumerate(instructions):
            if instruction.op.name != "fork":
                continue
            at = i + 1
            last = i + sum(instruction.ints)
            for number, length in enumerate(instruction.ints):
                for k in range(at, at + length):
                    self.spans[k] = (i + 1, last)
                    self.branch[k] = (i, number)
                at += length
