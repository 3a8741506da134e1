"""Random draws: what is drawn stands in memory before the kernels run."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu import random
from sdbr.backends.cpu.prepare.operands import Operand
from sdbr.backends.cuda.launch import Launches, teams_for
from sdbr.backends.cuda.team import by_dtype
from sdbr.ops.op import Op


def prepare(
    op: Op, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> Launches:
    """The launch of an op that draws.

    Raises
    ------
    BackendError
        For gaps.
    """
    kernel, numbers = random.prepare(op.name, ins, outs, ints)
    n = numbers[0]
    return (by_dtype(op.name, kernel[-2:], numbers, teams_for(n), draws=n),)
