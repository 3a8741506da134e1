"""How much of its arena a program uses while each op runs."""

from __future__ import annotations

from sdbr.base.dtypes import DTYPES

import numpy as np


def live_bytes(program) -> np.ndarray:
    """Bytes of the program's own arena that hold something needed, for each op.

    Parameters
    ----------
    program : Program

    Returns
    -------
    numpy.ndarray
        int64[n]; at most `arena_bytes`. What the op works in counts, and so does what it reads
        for the last time. What lies in an arena of another program does not.
    """
    found = np.zeros(len(program), np.int64)
    slot = program.arena_slot()
    if slot is None:
        return found
    at = next(i for i, s in enumerate(program.slots) if s.index == slot)
    spans: dict[int, list[int]] = {}  # root row -> first and last op
    base, slots = program.rows["base"].tolist(), program.rows["slot"].tolist()
    for i in range(len(program)):
        for row in (*program.operands_of(i)[0], *program.operands_of(i)[1]):
            root = base[row]
            if slots[root] == at:
                spans.setdefault(root, [i, i])[1] = i
    alive: list[list[tuple[int, int]]] = [[] for _ in range(len(program))]
    for root, (first, last) in spans.items():
        start = int(program.rows["offset"][root])
        n = int(np.prod(program.row_shape(root), dtype=np.int64))
        end = start + n * DTYPES[program.rows["type"][root]].itemsize
        for i in range(first, last + 1):
            alive[i].append((start, end))
    for i, intervals in enumerate(alive):
        found[i] = _covered(intervals)
    return found


def _covered(intervals: list[tuple[int, int]]) -> int:
    """The length of a union: results may lie where the last reader finds its operand."""
    total = reached = 0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total
