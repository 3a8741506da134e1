"""What the ops of a program have to do: floating-point operations and bytes."""

from __future__ import annotations

from sdbr.base.dtypes import DTYPES
from sdbr.ops.table import OPS


def work_of(program) -> list[tuple[int | None, int]]:
    """Floating-point operations and bytes of each op, by its row of the op table.

    Operations are those of the formula, whatever a kernel does in their place; None for Python
    ops. Of operands that repeat their elements (broadcasts) each counts once.
    """
    found = []
    for i, code in enumerate(program.opcodes.tolist()):
        op, (ins, outs) = OPS[code], program.operands_of(i)
        ints = program.attributes_of(i)[0]
        layouts = [[_layout(program, row, False) for row in rows] for rows in (ins, outs)]
        lying = [[_layout(program, row, True) for row in rows] for rows in (ins, outs)]
        found.append((op.work(*layouts, ints)[0], op.work(*lying, ints)[1]))
    return found


def _layout(program, row: int, in_memory: bool) -> tuple:
    shape = program.row_shape(row)
    if in_memory:
        strides = program.row_strides(row)
        shape = tuple(n if s or not n else 1 for n, s in zip(shape, strides, strict=True))
    return DTYPES[program.rows["type"][row]], shape
