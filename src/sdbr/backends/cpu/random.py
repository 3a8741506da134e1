"""Random draws."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, contiguous, suffix
from sdbr.backends.cpu.prepare.space import KernelCall, product


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> KernelCall:
    """Kernel and integers of an op that draws.

    Raises
    ------
    BackendError
        For gaps.
    """
    contiguous(name, [*ins, *outs])
    return f"{name}_{suffix(outs[0])}", [product(outs[0][1])]
