"""Comparisons, and arithmetic of integers and truth values: operands with any strides."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu import integer
from sdbr.backends.cpu.prepare.operands import Operand
from sdbr.backends.cuda.families.data import by_place
from sdbr.backends.cuda.launch import Launch, Launches
from sdbr.ops.op import Op


def prepare(
    op: Op, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> Launches:
    """The launch of ``compare``, ``integer`` or ``count``.

    Raises
    ------
    BackendError
        For dtypes without kernels, more axes than a kernel counts, and gaps in what is counted.
    """
    kernel, numbers = integer.prepare(op.name, ins, outs, ints)
    name, *kinds = kernel.split("_")
    if op.name == "count":
        return (Launch(kernel, f"SDBR_COUNT({kinds[0]})", tuple(numbers)),)
    return (by_place(name, kinds, [*ins, *outs]),)
