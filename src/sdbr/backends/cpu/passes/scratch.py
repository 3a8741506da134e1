"""Memory that kernels work in, as the families of the ops that ask for it say."""

from __future__ import annotations

import copy
import importlib

from sdbr.base.dtypes import DTYPE_CODES
from sdbr.base.threads import num_threads
from sdbr.program.buffers import BufferTable, Row
from sdbr.program.builder import Instruction


def scratch(
    instructions: list[Instruction], kept: set[int], table: BufferTable
) -> list[Instruction]:
    """Give every op whose last output is scratch memory a row for it, unless it has one.

    The module of its family has a function ``scratch(name, ins, outs, ints, threads)``, with
    operands as for ``prepare``, which says how many elements.
    """
    if not any(_lacks(instruction) for instruction in instructions):
        return instructions
    threads = num_threads()
    return [_with_room(i, table, threads) if _lacks(i) else i for i in instructions]


def _lacks(instruction: Instruction) -> bool:
    return len(instruction.outs) < instruction.op.most_outputs


def _with_room(instruction: Instruction, table: BufferTable, threads: int) -> Instruction:
    op, outs = instruction.op, instruction.outs
    module = importlib.import_module(f"sdbr.backends.cpu.{op.family}")
    operands = [_operand(row) for row in (*instruction.ins, *outs)]
    cut = len(instruction.ins)
    size = module.scratch(op.name, operands[:cut], operands[cut:], instruction.ints, threads)
    result = copy.copy(instruction)
    result.outs = [*outs, table.root((size,), outs[0].dtype, None, "scratch")]
    return result


def _operand(row: Row) -> tuple:
    return DTYPE_CODES[row.dtype], row.shape, row.strides
