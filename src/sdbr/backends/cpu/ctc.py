"""Connectionist temporal classification: C-contiguous operands, int32 labels and lengths."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, contiguous
from sdbr.backends.cpu.prepare.space import Prepared, describe, floating
from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import BackendError


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> Prepared:
    """Kernel and integers of ``ctc`` or ``ctc_grad``.

    Raises
    ------
    BackendError
        For dtypes without kernels, shapes that are not those of the op table, gaps, and a blank
        that is none of the labels.
    """
    operands = [*ins, *outs]
    contiguous(name, operands)
    if name == "ctc":
        x, n, m, t = ins
        loss, y, paths, work = outs
        numbers = [x, loss, y, paths, work]
    else:
        x, paths, n, m, t, loss = ins
        y, work = outs[0], None
        numbers = [x, paths, loss, y]
    suffix = floating(name, numbers, operands)
    (times, batch, labels), length = x[1], t[1][-1]
    places = 2 * length + 1
    fine = (
        all(DTYPES[i[0]] == "i4" for i in (n, m, t))
        and t[1] == (batch, length)
        and n[1] == m[1] == loss[1] == (batch,)
        and y[1] == x[1]
        and paths[1] == (times, batch, places)
        and (work is None or work[1] == (4 * (places + 2),))
        and 0 <= ints[0] < labels
        and times > 0
    )
    if not fine:
        raise BackendError(
            f"op {name!r} takes the shapes of the op table; got {describe(ins)} -> "
            f"{describe(outs)}, blank {ints[0]}"
        )
    return f"{name}_{suffix}", [times, batch, labels, length, ints[0]]
