"""Copies, casts and fills."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, suffix
from sdbr.backends.cpu.prepare.space import describe, product, strided
from sdbr.backends.cuda.launch import AXES, Launch, Launches, teams_for
from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import BackendError
from sdbr.ops.op import Op


def prepare(
    op: Op, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> Launches:
    """The launch of ``copy``, ``cast`` or ``fill``.

    Raises
    ------
    BackendError
        For a cast or fill of a complex dtype, and more axes than a kernel counts.
    """
    operands = [*ins, *outs]
    if op.name == "copy":
        kinds = [str(DTYPES[outs[0][0]].itemsize)]
    elif any(DTYPES[code].kind == "c" for code, _, _ in operands):
        raise BackendError(f"op {op.name!r} has no kernel for {describe(operands)}")
    else:
        kinds = [suffix(operand) for operand in operands]
    launch = by_place(op.name, kinds, operands)
    if op.name == "copy":
        elements = product(outs[0][1])
        launch = dataclasses.replace(launch, together="copy_together", elements=elements)
    return (launch,)


def by_place(name: str, kinds: Sequence[str], operands: Sequence[Operand]) -> Launch:
    """The launch of a kernel that goes over operands with any strides.

    Raises
    ------
    BackendError
        For more axes than a kernel counts.
    """
    shape = operands[-1][1]
    ints = [1, 0] + [0] * len(operands) if 0 in shape else strided(name, operands)
    if ints[0] > AXES:
        raise BackendError(f"op {name!r} walks over at most {AXES} axes on a GPU; got {ints[0]}")
    text = f"SDBR_{name.upper()}({', '.join(kinds)})"
    return Launch("_".join([name, *kinds]), text, tuple(ints), teams_for(product(shape)))
