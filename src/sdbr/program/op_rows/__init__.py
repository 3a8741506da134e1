"""The rows of the op table, one module per family; the order here is that of the opcodes."""

from __future__ import annotations

import dataclasses

from sdbr.program.op import Op
from sdbr.program.op_rows import (
    array,
    blas,
    control,
    convolution,
    ctc,
    data,
    elementwise,
    integer,
    loss,
    normalization,
    pooling,
    random,
    recurrent,
    reduction,
    special,
    update,
)

FAMILIES = (
    control,
    data,
    elementwise,
    random,
    reduction,
    blas,
    loss,
    update,
    array,
    convolution,
    recurrent,
    normalization,
    ctc,
    special,
    integer,
    pooling,
)


def all_rows() -> tuple[Op, ...]:
    """Every row, with its opcode."""
    rows = [op for family in FAMILIES for op in family.ROWS]
    return tuple(dataclasses.replace(op, opcode=i) for i, op in enumerate(rows))
