"""Recurrent cells: integers of the CPU."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu import recurrent
from sdbr.backends.cpu.prepare.operands import Operand
from sdbr.backends.cuda.launch import Launches, teams_for
from sdbr.backends.cuda.team import by_dtype
from sdbr.base.errors import BackendError
from sdbr.ops.op import Op

_NAMES = ("lstm", "lstm_grad")


def prepare(
    op: Op, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> Launches:
    """The launch of an LSTM cell.

    Raises
    ------
    BackendError
        For gaps, and for cells with children.
    """
    if op.name not in _NAMES:
        raise BackendError(f"op {op.name!r} has no kernel for GPUs")
    kernel, numbers = recurrent.prepare(op.name, ins, outs, ints)
    return (by_dtype(op.name, kernel[-2:], numbers, teams_for(numbers[0])),)
