"""What kernels may cost: enough to tell where running some of them at once could be worth a try.

No forecast. What is tried is timed on the device (`contest`); what could not gain is not tried.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sdbr.backends.cuda.chains import Call
from sdbr.backends.cuda.together import Unit
from sdbr.base.dtypes import DTYPES
from sdbr.ops.table import OPS
from sdbr.program.program import Program

#: Microseconds of a node of a graph, as others have measured it, and of the shortest kernel in it.
NODE, SHORTEST = 1.3, 1.0
#: Of an H200: multiprocessors; bytes and multiply-adds in a microsecond.
_BLOCKS, _BYTES, _PRODUCTS = 132, 4.3e6, 3e7
#: What has to be saved at least for a try.
LEAST_GAIN = 0.05


def cost(program: Program, call: Call) -> tuple[float, float]:
    """Microseconds of a call alone, and the share of the device that it takes meanwhile."""
    share = min(1.0, call.kernel.teams / _BLOCKS) if len(call.links) == 1 else 1 / _BLOCKS
    units = {id(unit): unit for unit, _ in call.links}.values()
    work = sum(max(_nbytes(program, x) / _BYTES, _products(program, x) / _PRODUCTS) for x in units)
    return SHORTEST + work / max(share, 1 / _BLOCKS), max(share, 1 / _BLOCKS)


def could_gain(program: Program, calls: Sequence[Call], before: Sequence[Sequence[int]]) -> bool:
    """Whether calls that run at once could be done sooner by `LEAST_GAIN` than one after the other.

    At best all end when the longest path does, or when the device has done all of them.

    Parameters
    ----------
    program : Program
    calls : sequence of Call
    before : sequence of sequence of int
        What each waits for.
    """
    ends: list[float] = []
    total = busy = 0.0
    for call, of_it in zip(calls, before, strict=True):
        time, share = cost(program, call)
        ends.append(max((ends[k] for k in of_it), default=0.0) + NODE + time)
        total += NODE + time
        busy += time * share
    return max([busy, *ends]) < (1 - LEAST_GAIN) * total


def _nbytes(program: Program, unit: Unit) -> int:
    rows = {r for i in unit.ops for of_it in program.operands_of(i) for r in of_it}
    return sum(
        DTYPES[program.rows["type"][r]].itemsize * math.prod(program.row_shape(r)) for r in rows
    )


def _products(program: Program, unit: Unit) -> int:
    """Multiply-adds."""
    if OPS[int(program.opcodes[unit.ops[0]])].family != "product":
        return 0
    n, m, depth, count = (*unit.launches[0].ints[:3], unit.launches[0].ints[7])
    return n * m * depth * count
