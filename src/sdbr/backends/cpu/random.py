"""Random draws."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, contiguous
from sdbr.backends.cpu.prepare.space import Prepared, floating, product, same_shape


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> Prepared:
    """Kernel and integers of an op that draws.

    Raises
    ------
    BackendError
        For dtypes without kernels, different shapes, gaps.
    """
    operands = [*ins, *outs]
    suffix = floating(name, operands, operands)
    same_shape(name, operands)
    contiguous(name, operands)
    return f"{name}_{suffix}", [product(outs[0][1])]
