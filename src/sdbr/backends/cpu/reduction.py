"""Reductions and row ops: canonical x[outer, n, inner], C-contiguous."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, contiguous
from sdbr.backends.cpu.prepare.space import Prepared, describe, floating
from sdbr.base.errors import BackendError


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> Prepared:
    """Kernel and integers of a reduction to y[outer, inner] or of a row op.

    Raises
    ------
    BackendError
        For dtypes without kernels, shapes that are not canonical, gaps, and
        for the largest or smallest of nothing.
    """
    operands = [*ins, *outs]
    suffix = floating(name, operands, operands)
    contiguous(name, operands)
    shape = ins[0][1]
    # Row ops keep the shape of x; a reduction drops axis 1.
    if len(shape) != 3 or any(x[1] not in (shape, (shape[0], shape[2])) for x in operands):
        raise BackendError(
            f"op {name!r} takes x[outer, n, inner]; got {describe(ins)} -> {describe(outs)}"
        )
    outer, n, inner = shape
    if n == 0 and outer * inner > 0 and name in ("max", "min"):
        raise BackendError(f"op {name!r} of nothing: {describe(ins)}")
    if 0 in outs[0][1]:
        outer = 0
    if inner == 1:
        return f"{name}_rows_{suffix}", [outer, n]
    return f"{name}_columns_{suffix}", [outer, n, inner]
