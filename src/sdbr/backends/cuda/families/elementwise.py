"""Elementwise ops: kernels and integers are those of the CPU."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu import elementwise
from sdbr.backends.cpu.prepare.operands import Operand
from sdbr.backends.cpu.prepare.space import product
from sdbr.backends.cuda.launch import AXES, Launch, Launches, teams_for
from sdbr.base.errors import BackendError
from sdbr.ops.op import Op


def prepare(
    op: Op, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> Launches:
    """The launches of an elementwise op.

    Raises
    ------
    BackendError
        For more axes than a kernel counts.
    """
    kernel, numbers = elementwise.prepare(op.name, ins, outs, ints)
    layout = kernel.split("_")[-2]
    if layout == "strided" and numbers[0] > AXES:
        raise BackendError(
            f"op {op.name!r} walks over at most {AXES} axes on a GPU; got {numbers[0]}"
        )
    teams = teams_for(product(outs[0][1]))
    return (Launch(kernel, text(op, layout), tuple(numbers), teams, kernel[-2:]),)


def text(op: Op, layout: str) -> str:
    """The source of a kernel: a macro makes it."""
    return f"SDBR_ELEMENTS_{layout}({op.name}, {len(op.inputs)}, {len(op.floats)})"
