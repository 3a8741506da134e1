"""Pooling: canonical x[n, d, h, w] and y[n, od, oh, ow], C-contiguous."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, contiguous, suffix
from sdbr.backends.cpu.prepare.space import KernelCall, describe
from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import BackendError

#: Where x and y are among the operands, and the index.
_OPERANDS = {
    "max_pooling": (0, 1, None),
    "max_pooling_index": (0, 1, 2),
    "max_pooling_grad": (2, 0, 1),
    "max_pooling_pick": (0, 2, 1),
    "average_pooling": (0, 1, None),
    "average_pooling_grad": (1, 0, None),
}


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> KernelCall:
    """Kernel and integers of an op of the family ``pooling``.

    Raises
    ------
    BackendError
        For gaps, and for an index of a dtype that the kernel does not write.
    """
    operands = [*ins, *outs]
    at_x, at_y, at_k = _OPERANDS[name]
    x, y = operands[at_x], operands[at_y]
    k = None if at_k is None else operands[at_k]
    contiguous(name, operands)
    window = list(ints[:9])
    if name == "max_pooling_index" and not _holds(k, math.prod(window[:3])):
        raise BackendError(f"op {name!r} has no kernel that gives {describe([k])}, window {window}")
    numbers = [*x[1], *y[1][1:], *window, *([] if k is None else [k[0]]), *ints[9:]]
    kernel = name
    if name == "max_pooling_grad" and not ints[9]:
        kernel = "max_pooling_grad_checked"
    return f"{kernel}_{suffix(x)}", numbers


def _holds(k: Operand, places: int) -> bool:
    """Whether the index has one of the two dtypes that the kernel writes."""
    dtype = DTYPES[k[0]].str[1:]
    return dtype == "i4" or (dtype == "u1" and places <= 256)
