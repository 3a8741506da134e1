"""Elementwise ops: one axis when everything is contiguous, a collapsed strided space otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand
from sdbr.backends.cpu.prepare.space import Prepared, floating, product, strided
from sdbr.program.buffers import c_strides


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> Prepared:
    """Kernel and integers of an elementwise op.

    Raises
    ------
    BackendError
        For dtypes without kernels, operands of different dtypes or shapes.
    """
    operands = [*ins, *outs]
    suffix = floating(name, operands, operands)
    _, shape, strides = outs[0]
    itemsize = 4 if suffix == "f4" else 8
    if strides == c_strides(shape, itemsize) and all(x[1:] == (shape, strides) for x in ins):
        return f"{name}_contiguous_{suffix}", [product(shape)]
    space = strided(name, operands)
    if space[0] == 1 and (space[1] == 1 or all(step == itemsize for step in space[2:])):
        return f"{name}_contiguous_{suffix}", [space[1]]
    return f"{name}_strided_{suffix}", space
