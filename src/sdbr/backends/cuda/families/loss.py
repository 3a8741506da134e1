"""Losses, evaluation, picking by label: C-contiguous operands; integers of the CPU."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu import loss
from sdbr.backends.cpu.prepare.operands import Operand
from sdbr.backends.cpu.prepare.space import product
from sdbr.backends.cuda.launch import ROOM, SCRATCH, THREADS, Launch, Launches, teams_for
from sdbr.backends.cuda.team import by_dtype, rows_at_a_time, teams_for_sum, totalled
from sdbr.ops.op import Op

MEAN, ACCURACY, SEED, GRADIENT, SEEDED = 1, 2, 4, 8, 16  # SDBR_PART, as in kernels/device/loss.cuh
SUMS = 4  # of the kernel that does all of these
#: Sums over all elements, and how many.
_TOTALS = {"sigmoid_cross_entropy": 2, "mean_squared_error": 1, "mean_absolute_error": 1}
_BY_ROW = ("accuracy", "argmax", "argmin")


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
        return (_cross_entropy(op.name, dtype, numbers),)
    if op.name in _TOTALS:
        teams = teams_for_sum(numbers[0])
        return (totalled(op.name, dtype, numbers, teams, _TOTALS[op.name]),)
    if op.name in _BY_ROW:
        rows = numbers[0] * numbers[2]
        lanes = rows_at_a_time(rows, numbers[1], numbers[2])
        numbers, teams = [*numbers, lanes], -(-rows // lanes)
        if op.name == "accuracy":
            return (totalled(op.name, dtype, numbers, teams, 2),)
        return (by_dtype(op.name, dtype, numbers, teams),)
    work = max(product(shape) for _, shape, _ in outs)
    return (by_dtype(op.name, dtype, numbers, teams_for(work)),)


def _cross_entropy(name: str, dtype: str, numbers: Sequence[int]) -> Launch:
    """Its operands are x, t, loss, lse, and where it is a mean coeff, then w when given."""
    outer, c, inner = numbers[:3]
    lanes, weighted = rows_at_a_time(outer * inner, c, inner), numbers[4]
    is_mean = name == "softmax_cross_entropy"
    parts = MEAN if is_mean else 0
    first_out = 2 + weighted
    given = [0, 1, first_out, first_out + 1, first_out + 2 if is_mean else 0, 2 if weighted else 0]
    return cross_entropy(dtype, [*numbers[:7], lanes, parts, 0, 0, 0], [*given, 0, 0, 0, 0])


def cross_entropy(dtype: str, numbers: Sequence[int], operands: Sequence[int]) -> Launch:
    """The launch of a softmax cross entropy, alone or with what follows it.

    Parameters
    ----------
    dtype : str
    numbers : sequence of int
        As ``kernels/device/loss.cuh`` wants them.
    operands : sequence of int
        Which operands of the ops are the kernel's.
    """
    outer, c, inner, lanes = (*numbers[:3], numbers[7])
    row = c * lanes * int(dtype[1])
    fits = [row <= 8 * (room - THREADS) for room in (SCRATCH, ROOM)]
    name = "cross_entropy_roomy" if fits == [False, True] else "cross_entropy"
    teams = -(-outer * inner // lanes)
    return totalled(name, dtype, numbers, teams, SUMS, operands=tuple(operands))
