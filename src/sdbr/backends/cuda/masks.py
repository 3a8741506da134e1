"""Masks of relu: where the product in front of one could note them for the product of its gradient.

Then the gradient is masked where it is made, and nobody reads the output of the relu for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sdbr.backends.cuda.together import Place
from sdbr.ops.table import OPS
from sdbr.program.program import Program

import numpy as np

RELU = 1  # activation


def pairs(
    program: Program,
    taken: set[int],
    places: Callable[[int], tuple[list[Place], list[Place]]],
) -> Iterator[tuple[int, int]]:
    """Products with a relu, each with one of its gradient that reads what that has written.

    Parameters
    ----------
    program : Program
    taken : set of int
        Ops that may be such.
    places : callable
        What an op reads and what it writes.
    """
    source: dict[int, int] = {}
    found = []
    for i in sorted(taken):
        op, (ins, outs) = OPS[int(program.opcodes[i])], program.operands_of(i)
        ints, _ = program.attributes_of(i)
        if op.name == "linear" and ints[0] == RELU:
            source[outs[0]] = i
        elif op.name == "gemm_mask" and ints[0] == RELU and ins[2] in source:
            found.append((source[ins[2]], i))
    if not found:
        return
    writes = np.array(list(_writes(program, places)), np.int64).reshape(-1, 4)
    for i, j in found:
        slot, low, high = places(i)[1][0]
        between = writes[np.searchsorted(writes[:, 0], i + 1) : np.searchsorted(writes[:, 0], j)]
        meets = (between[:, 1] == slot) & (between[:, 2] < high) & (between[:, 3] > low)
        if not (meets | (between[:, 1] < 0)).any():
            yield i, j


def _writes(program: Program, places) -> Iterator[tuple[int, int, int, int]]:
    """What each op writes, with its number; slot -1: whatever it likes."""
    for i, opcode in enumerate(program.opcodes.tolist()):
        op = OPS[opcode]
        if op.python or op.writes_inputs:
            yield i, -1, 0, 0
        for place in places(i)[1]:
            yield i, *place
