"""A program that is written as arrays, by hand."""

from __future__ import annotations

from sdbr.ops.table import BY_NAME
from sdbr.program.buffers import ARENA, BOUND, ROW_DTYPE, Slot
from sdbr.program.program import Program

import numpy as np


def three_ops() -> Program:
    """y = sum over axis 0 of relu(x @ w.T) * 3, as arrays and nothing else."""
    f4 = np.dtype("f4")
    slots = (
        Slot(0, BOUND, (2, 3), f4, "x"),
        Slot(1, BOUND, (4, 3), f4, "w"),
        Slot(2, ARENA, None, None, "arena"),
        Slot(3, BOUND, (4,), f4, "y"),
    )
    for slot, nbytes in zip(slots, (24, 48, 128, 16), strict=True):
        slot.nbytes = nbytes
    codes = [BY_NAME[name].opcode for name in ("linear", "mul_constant", "sum")]
    return Program(
        opcodes=np.array(codes, np.int32),
        operand_offsets=np.array([0, 3, 5, 7], np.int32),
        operands=np.array([0, 1, 2, 2, 3, 4, 5], np.int32),
        n_outputs=np.array([1, 1, 1], np.int32),
        attribute_offsets=np.array([[0, 0], [1, 0], [1, 1], [1, 1]], np.int32),
        int_attributes=np.array([1], np.int64),  # activation: relu
        float_attributes=np.array([3.0]),
        control_references=np.zeros((0, 2), np.int32),
        # kind, slot, dtype, ndim, start in dims, base, offset
        rows=np.array(
            [
                (BOUND, 0, 0, 2, 0, 0, 0),
                (BOUND, 1, 0, 2, 4, 1, 0),
                (ARENA, 2, 0, 2, 8, 2, 0),
                (ARENA, 2, 0, 2, 8, 3, 64),
                (ARENA, 2, 0, 3, 12, 3, 64),  # the row before as [outer, n, inner]
                (BOUND, 3, 0, 2, 18, 5, 0),
            ],
            ROW_DTYPE,
        ),
        dims=np.array(
            [2, 3, 12, 4, 4, 3, 12, 4, 2, 4, 16, 4, 1, 2, 4, 32, 16, 4, 1, 4, 16, 4], np.int64
        ),
        slots=slots,
        arena_bytes=128,
    )
