"""How ops are cut into parts for several threads, along the axis that the op table names.

A part runs the same kernel on operands that begin further on and with a shorter axis
(``kernels/runtime/threads.c``), so parts write disjoint memory and results do not depend on how
many there are. A kernel that checks indices which come from data is not cut: nothing may be
written before all of them are checked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from sdbr.backends.cpu.prepare.operands import Operand
from sdbr.base.dtypes import DTYPES
from sdbr.base.limits import SPLIT_INTS, SPLIT_OPERANDS
from sdbr.ops.op import Op

#: What one thread should have to do at least, in multiply-adds that a vector unit does at its
#: best rate: about 20 microseconds. Waking a thread that sleeps takes about that long.
LEAST_WORK = 1 << 20
#: An element that is read or written counts as so many of them.
PER_ELEMENT = 16


@dataclasses.dataclass(frozen=True)
class Split:
    """How an op is cut.

    Attributes
    ----------
    count : int
        Which of the kernel's integers is the length of the axis.
    total : int
        That length.
    steps : tuple of int
        Bytes per unit of the axis, for each operand; 0 where every part sees all of it.
    work : float
        Of one unit, in the measure of `LEAST_WORK`.
    grain : int
        Parts begin at multiples of this.
    """

    count: int
    total: int
    steps: tuple[int, ...]
    work: float
    grain: int = 1

    @property
    def least(self) -> int:
        """Units that are worth a thread."""
        return max(self.grain, 1, int(LEAST_WORK // max(self.work, 1e-9)))

    def header(self, kernel: int, n_ints: int) -> list[int]:
        """The integers of the kernel ``split`` that come before those of the kernel itself."""
        fixed = [kernel, len(self.steps), n_ints, self.count, self.grain, self.least]
        return [*fixed, *self.steps]


def split_of(
    op: Op, kernel: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> Split | None:
    """How the op with this kernel and these integers is cut, or None where it is not worth it."""
    find = _by_kernel(op, kernel)
    split = None if find is None else find(kernel, [*ins, *outs], ints)
    if split is None or split.total < 2 * split.least:
        return None
    if len(split.steps) > SPLIT_OPERANDS or len(ints) > SPLIT_INTS:
        return None
    return split


def _item(operand: Operand) -> int:
    return DTYPES[operand[0]].itemsize


def _elements(kernel, operands, ints) -> Split | None:
    """Contiguous operands of one size that are walked together."""
    if any(_size(x) != ints[0] for x in operands):
        return None
    steps = tuple(map(_item, operands))
    return Split(0, ints[0], steps, PER_ELEMENT * len(operands) / 2, 1024)


def _fused(kernel, operands, ints) -> Split | None:
    """Blocks of several elementwise ops; not where an input is walked over by its strides."""
    n, block, n_operands, _, n_loads, n_steps = ints[:6]
    steps = [_item(x) for x in operands]
    at = 6
    for _ in range(n_loads):
        operand, _, again, ndim = ints[at : at + 4]
        if again:
            return None
        steps[operand] = 0  # the same in all blocks
        at += 4 + 2 * ndim
    return Split(0, n, tuple(steps), PER_ELEMENT * (n_operands + n_steps) / 2, block)


def _outer(kernel, operands, ints) -> Split | None:
    """x[outer, ...]: every operand has that axis first."""
    outer = ints[0]
    if outer < 2 or any(x[1][0] != outer for x in operands):
        return None
    sizes = [_size(x) // outer for x in operands]
    steps = tuple(n * _item(x) for n, x in zip(sizes, operands, strict=True))
    return Split(0, outer, steps, PER_ELEMENT * max(sizes))


def _product_rows(kernel, operands, ints) -> Split:
    """Rows of the left factor and of the result; `linear` and `gemm_mask`, too."""
    n, m, depth = ints[:3]
    item = _item(operands[0])
    rows = [depth] + [0] * (len(operands) - 2) + [m]
    if kernel.startswith("gemm_mask"):
        rows[2] = m  # the output of the activation below
    return Split(0, n, tuple(r * item for r in rows), m * depth, 8)


def _gemm(kernel, operands, ints) -> Split:
    """Rows of c: rows of a, or its columns when it is transposed."""
    split = _product_rows(kernel, operands, ints)
    if ints[3]:
        item = _item(operands[0])
        split = dataclasses.replace(split, steps=(item, *split.steps[1:]))
    return split


def _matrices(kernel, operands, ints) -> Split:
    """Products of many pairs."""
    n, m, depth = ints[:3]
    item = _item(operands[0])
    steps = (n * depth * item, m * depth * item, n * m * item)
    return Split(6, ints[6], steps, n * m * depth)


def _channels(kernel, operands, ints) -> Split:
    """x[outer, c, inner] and numbers [c]: planes or columns of some channels."""
    c, inner = ints[1:3]
    steps = tuple((inner if len(x[1]) == 3 else 1) * _item(x) for x in operands)
    return Split(1, c, steps, PER_ELEMENT * 2 * ints[0] * inner)


def _samples(kernel, operands, ints) -> Split | None:
    """x[n, groups, length] and statistics [n, groups], with parameters that all parts see."""
    if ints[0] < 2:
        return None
    sizes = [_size(x) // ints[0] if len(x[1]) > 1 else 0 for x in operands]
    steps = tuple(n * _item(x) for n, x in zip(sizes, operands, strict=True))
    return Split(0, ints[0], steps, PER_ELEMENT * 2 * max(sizes))


def _size(operand: Operand) -> int:
    n = 1
    for k in operand[1]:
        n *= k
    return n


#: By the axis that the op table names; the integers of some kernels say it in their own way.
_ALONG: dict[str, Callable] = {
    "elements": _elements,
    "rows": _product_rows,
    "matrices": _matrices,
    "outer": _outer,
    "samples": _samples,
    "channels": _channels,
}
_OWN_WAY: dict[str, Callable] = {"fused": _fused, "gemm": _gemm}
#: What may stand behind the name of an op in that of a kernel whose integers are those above.
_VARIANTS = {"", "_contiguous", "_planes", "_columns", "_rows", "_elements", "_vhat"}


def _by_kernel(op: Op, kernel: str) -> Callable | None:
    if not op.cut or kernel.rsplit("_", 1)[0].removeprefix(op.name) not in _VARIANTS:
        return None
    return _OWN_WAY.get(op.name) or _ALONG[op.cut]
