"""Elements taken from places, put there, added up there, chosen by a condition."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sdbr.backends.cpu import array
from sdbr.backends.cpu.prepare.operands import Operand, suffix
from sdbr.backends.cpu.prepare.space import product
from sdbr.backends.cuda.families.data import by_place
from sdbr.backends.cuda.launch import INTS, OPERANDS, Launch, Launches, teams_for
from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import BackendError
from sdbr.ops.op import Op

_HEAD = 8  # integers before those of the indices, as in kernels/array/index.h


def prepare(
    op: Op, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> Launches:
    """The launches of an op of the family ``array`` that chooses elements.

    Raises
    ------
    BackendError
        For other ops, gaps, and more axes or indices than a launch holds.
    """
    size = str(DTYPES[outs[0][0]].itemsize)
    if op.name == "where":
        return (by_place("where", [size], [*ins, *outs]),)
    if op.name not in ("take", "put", "scatter_add"):
        raise BackendError(f"op {op.name!r} has no kernel for GPUs")
    _, numbers = array.prepare(op.name, ins, outs, ints)
    k = numbers[3]
    numbers = numbers[: _HEAD + 3 * k]
    if len(numbers) > INTS or k + 2 > OPERANDS:
        raise BackendError(f"op {op.name!r} has too many indices for a GPU: {k}")
    kind = suffix(outs[0]) if op.name == "scatter_add" else size
    name = {"scatter_add": "SCATTER"}.get(op.name, op.name.upper())
    chosen = Launch(
        f"{op.name}_{kind}",
        f"SDBR_{name}({kind})",
        tuple(numbers),
        teams_for(product(numbers[:3])),
    )
    if op.name == "scatter_add" and not ints[0]:
        nothing = by_place("zero", [size], outs)
        return dataclasses.replace(nothing, operands=(len(ins),)), chosen
    return (chosen,)
