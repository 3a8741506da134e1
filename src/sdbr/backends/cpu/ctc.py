"""Connectionist temporal classification: C-contiguous operands, int32 labels and lengths."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, contiguous, suffix
from sdbr.backends.cpu.prepare.space import Prepared, describe
from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import BackendError


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> Prepared:
    """Kernel and integers of ``ctc`` or ``ctc_grad``.

    Raises
    ------
    BackendError
        For gaps, and for labels and lengths that are not int32.
    """
    contiguous(name, [*ins, *outs])
    n, m, t = ins[1:4] if name == "ctc" else ins[2:5]
    if any(DTYPES[x[0]] != "i4" for x in (n, m, t)):
        raise BackendError(f"op {name!r} takes int32 labels and lengths; got {describe(ins)}")
    return f"{name}_{suffix(ins[0])}", [*ins[0][1], t[1][1], *ints]
