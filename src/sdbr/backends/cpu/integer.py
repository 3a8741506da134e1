"""Comparisons, and arithmetic of integers and truth values: operands with any strides."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, contiguous, suffix
from sdbr.backends.cpu.prepare.space import KernelCall, describe, strided
from sdbr.base.errors import BackendError

#: How kernels spell what an op's integer chooses, and the dtypes that they have.
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
ARITHMETIC = ("add", "sub", "mul", "max", "min", "and", "or", "xor")
LOGICAL = ("and", "or", "xor")


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> KernelCall:
    """Kernel and integers of ``compare``, ``integer`` or ``count``.

    Raises
    ------
    BackendError
        For dtypes without kernels, more axes than a kernel counts, and gaps in what is counted.
    """
    if name == "count":
        contiguous(name, ins)
        return f"count_{suffix(ins[0])}", [math.prod(ins[0][1])]
    x, y, z = *ins, *outs
    kind = (COMPARISONS if name == "compare" else ARITHMETIC)[ints[0]]
    dtype = suffix(x)
    if name == "compare":
        fine = dtype in ("f4", "f8", "i4", "i8")
    else:
        fine = dtype in ("i4", "i8") or (dtype == "b1" and kind in LOGICAL)
    if not fine:
        raise BackendError(f"op {name!r} has no kernel for {describe(ins)} -> {describe(outs)}")
    space = [1, 0, 0, 0, 0] if 0 in z[1] else strided(name, [x, y, z])
    return f"{name}_{kind}_{dtype}", space
