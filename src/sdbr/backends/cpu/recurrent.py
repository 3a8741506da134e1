"""Recurrent cells: C-contiguous operands."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, contiguous, suffix
from sdbr.backends.cpu.prepare.space import KernelCall


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> KernelCall:
    """Kernel and integers of an op of the family ``recurrent``.

    Raises
    ------
    BackendError
        For gaps.
    """
    contiguous(name, [*ins, *outs])
    kernel = f"{name}_{suffix(ins[0])}"
    if name.startswith("tree"):
        n, gates, cells = ins[0][1]
        return kernel, [n, gates - 3, cells, *ints]
    cells = ins[1] if name == "lstm_grad" else ins[0]
    return kernel, [*cells[1], *ints]
