"""Elementwise ops: one axis when everything is contiguous, a collapsed strided space otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, suffix
from sdbr.backends.cpu.prepare.space import KernelCall, product, strided
from sdbr.program.buffers import c_strides


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> KernelCall:
    """Kernel and integers of an elementwise op.

    Raises
    ------
    BackendError
        For more axes than a kernel counts.
    """
    operands = [*ins, *outs]
    dtype = suffix(outs[0])
    _, shape, strides = outs[0]
    itemsize = 4 if dtype == "f4" else 8
    if strides == c_strides(shape, itemsize) and all(x[1:] == (shape, strides) for x in ins):
        return f"{name}_contiguous_{dtype}", [product(shape)]
    space = strided(name, operands)
    if space[0] == 1 and (space[1] == 1 or all(step == itemsize for step in space[2:])):
        return f"{name}_contiguous_{dtype}", [space[1]]
    return f"{name}_strided_{dtype}", space
