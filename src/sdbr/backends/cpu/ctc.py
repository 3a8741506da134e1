"""Connectionist temporal classification: C-contiguous operands, int32 labels and lengths."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, contiguous, suffix
from sdbr.backends.cpu.prepare.space import KernelCall, describe
from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import BackendError


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> KernelCall:
    """Kernel and integers of ``ctc`` or ``ctc_grad``.

    Raises
    ------
    BackendError
        For gaps, labels and lengths that are not int32, and where there is no scratch memory.
    """
    contiguous(name, [*ins, *outs])
    n, m, t = ins[1:4] if name == "ctc" else ins[2:5]
    if any(DTYPES[x[0]] != "i4" for x in (n, m, t)):
        raise BackendError(f"op {name!r} takes int32 labels and lengths; got {describe(ins)}")
    if name == "ctc" and len(outs) < 4:
        raise BackendError(f"op {name!r} needs scratch memory; got {describe(outs)}")
    return f"{name}_{suffix(ins[0])}", [*ins[0][1], t[1][1], *ints]


def scratch(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int], threads: int
) -> int:
    """Elements of the memory that the kernel works in: four rows of places, with margins."""
    labels = ins[3][1][-1]
    return 4 * (2 * labels + 3)
