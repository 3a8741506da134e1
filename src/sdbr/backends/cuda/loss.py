"""Losses, evaluation, picking by label: C-contiguous operands; integers of the CPU."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu import loss
from sdbr.backends.cpu.prepare.operands import Operand
from sdbr.backends.cpu.prepare.space import product
from sdbr.backends.cuda.launch import Launches, teams_for
from sdbr.backends.cuda.team import by_dtype, rows_at_a_time
from sdbr.ops.op import Op

_ONE_TEAM = {  # a sum over everything
    "softmax_cross_entropy",
    "sigmoid_cross_entropy",
    "mean_squared_error",
    "mean_absolute_error",
    "accuracy",
}


def prepare(
    op: Op, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> Launches:
    """The launches of an op of the family ``loss``.

    Raises
    ------
    BackendError
        For gaps, and for places of another dtype than int32.
    """
    kernel, numbers = loss.prepare(op.name, ins, outs, ints)
    dtype = kernel[-2:]
    if op.name in ("softmax_cross_entropy", "softmax_cross_entropy_no_reduce"):
        outer, c, inner = numbers[:3]
        lanes = rows_at_a_time(outer * inner, c, inner)
        numbers = [*numbers[:7], lanes]
        sums = by_dtype("log_sum_exp", dtype, numbers, -(-outer * inner // lanes))
        teams = 1 if op.name in _ONE_TEAM else teams_for(outer * inner)
        return sums, by_dtype(op.name, dtype, numbers, teams)
    work = max(product(shape) for _, shape, _ in outs)
    teams = 1 if op.name in _ONE_TEAM else teams_for(work)
    return (by_dtype(op.name, dtype, numbers, teams),)
