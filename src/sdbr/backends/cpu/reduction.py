"""Reductions and row ops: C-contiguous x[outer, n, inner]."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, contiguous, suffix
from sdbr.backends.cpu.prepare.space import KernelCall


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> KernelCall:
    """Kernel and integers of a reduction to y[outer, inner] or of a row op.

    Raises
    ------
    BackendError
        For gaps.
    """
    contiguous(name, [*ins, *outs])
    outer, n, inner = ins[0][1]
    if 0 in outs[0][1]:
        outer = 0
    if inner == 1:
        return f"{name}_rows_{suffix(ins[0])}", [outer, n]
    return f"{name}_columns_{suffix(ins[0])}", [outer, n, inner]
