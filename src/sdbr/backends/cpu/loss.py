"""Losses, accuracy, select_item: C-contiguous operands; labels of any integer dtype."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, contiguous, suffix
from sdbr.backends.cpu.prepare.space import KernelCall, describe, product
from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import BackendError


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> KernelCall:
    """Kernel and integers of an op of the family ``loss``.

    Raises
    ------
    BackendError
        For gaps, and for places of another dtype than int32.
    """
    contiguous(name, [*ins, *outs])
    if name in ("argmax", "argmin"):
        if DTYPES[outs[0][0]] != "i4":
            raise BackendError(f"op {name!r} gives int32; got {describe(outs)}")
        return f"{name}_op_{suffix(ins[0])}", [*ins[0][1]]
    if name == "select_item_grad":
        return f"{name}_{suffix(outs[0])}", [*outs[0][1], ins[0][0]]
    x, second = ins[0], ins[1]
    kernel = f"{name}_{suffix(x)}"
    if name.startswith("mean_"):
        return kernel, [product(x[1])]
    if name.startswith("sigmoid_cross_entropy"):
        return kernel, [product(x[1]), second[0], *ints]
    if name.startswith("softmax_cross_entropy"):
        normalize, ignore = (0, *ints)[-2:]
        return kernel, [*x[1], second[0], _weights(name, ins), ignore, normalize]
    return kernel, [*x[1], second[0], *ints]


def _weights(name: str, ins: Sequence[Operand]) -> int:
    """Whether there are weights: behind x, t and, in a gradient, lse, coeff and gloss."""
    fixed = 2
    if name.endswith("_grad"):
        fixed += 2 if "no_reduce" in name else 3
    return len(ins) - fixed
