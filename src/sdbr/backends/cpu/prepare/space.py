"""Iteration spaces: the fewest axes that describe what a strided kernel walks over."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand
from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import BackendError
from sdbr.base.limits import MAX_DIM

#: The name of a kernel, and the integers that it is called with.
KernelCall = tuple[str, list[int]]


def describe(operands: Sequence[Operand]) -> str:
    """``float32[2, 3], int32[2]`` for messages."""
    return ", ".join(f"{DTYPES[code].name}{list(shape)}" for code, shape, _ in operands)


def product(numbers: Sequence[int]) -> int:
    n = 1
    for k in numbers:
        n *= k
    return n


def collapse(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """Drop, sort and merge axes; the last operand (the output) decides the order.

    Parameters
    ----------
    shape : sequence of int
        Shape that all operands have.
    strides : sequence of sequences of int
        Bytes, per operand.

    Returns
    -------
    shape : list of int
        At least one axis.
    strides : list of list of int
        Per operand, for that shape.
    """
    axes = [(n, *steps) for n, *steps in zip(shape, *strides, strict=True) if n != 1]
    if not axes:
        return [1], [[0] for _ in strides]
    # Outermost first: the output is walked in the order of its memory, then the inputs are.
    axes.sort(key=lambda axis: tuple(-abs(step) for step in reversed(axis[1:])))
    merged = [axes[0]]
    for axis in axes[1:]:
        last = merged[-1]
        if all(a == b * axis[0] for a, b in zip(last[1:], axis[1:], strict=True)):
            merged[-1] = (last[0] * axis[0], *axis[1:])
        else:
            merged.append(axis)
    columns = [list(column) for column in zip(*merged, strict=True)]
    return columns[0], columns[1:]


def strided(name: str, operands: Sequence[Operand]) -> list[int]:
    """The integers that ``sdbr_nd_loop`` reads: ndim, shape, strides of each operand.

    Raises
    ------
    BackendError
        If more axes are left than a kernel counts.
    """
    shape = operands[-1][1]
    dims, steps = collapse(shape, [operand[2] for operand in operands])
    if len(dims) > MAX_DIM:
        raise BackendError(f"op {name!r} walks over at most {MAX_DIM} axes; got {len(dims)}")
    return [len(dims), *dims, *(step for column in steps for step in column)]
