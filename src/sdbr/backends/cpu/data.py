"""Data movement: copies by element size, casts and fills by dtype."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, suffix
from sdbr.backends.cpu.prepare.space import KernelCall, describe, product, strided
from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import BackendError


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> KernelCall:
    """Kernel and integers of ``copy``, ``cast`` or ``fill``.

    Raises
    ------
    BackendError
        For a cast or fill of a complex dtype, and more axes than a kernel counts.
    """
    if name == "copy":
        return _copy(ins[0], outs[0])
    operands = [*ins, *outs]
    if any(DTYPES[code].kind == "c" for code, _, _ in operands):
        raise BackendError(f"op {name!r} has no native kernel for {describe(operands)}")
    space = [1, 0] + [0] * len(operands)
    if 0 not in outs[0][1]:
        space = strided(name, operands)
    return "_".join([name, *map(suffix, operands)]), space


def _copy(x: Operand, y: Operand) -> KernelCall:
    size = DTYPES[x[0]].itemsize
    if 0 in y[1]:
        return "copy_contiguous", [0]
    ndim, *space = strided("copy", [x, y])
    shape, from_steps, to_steps = space[:ndim], space[ndim : 2 * ndim], space[2 * ndim :]
    if product(shape) == 1 or (ndim == 1 and from_steps == to_steps == [size]):
        return "copy_contiguous", [product(shape) * size]
    if ndim in (2, 3) and to_steps[-1] == size and from_steps[-1] not in (0, size):
        rows = [i for i in range(ndim - 1) if from_steps[i] == size]
        if rows:
            i = rows[-1]
            matrices = (
                [1, 0, 0] if ndim == 2 else [shape[1 - i], from_steps[1 - i], to_steps[1 - i]]
            )
            return f"copy_transposed_{size}", [
                *matrices,
                shape[i],
                shape[-1],
                from_steps[-1],
                to_steps[i],
            ]
    columns = [shape, from_steps, to_steps]
    least = 4 if from_steps[-1] == to_steps[-1] == size else 8
    if ndim > 1 and shape[-1] < min(least, shape[-2]):
        for column in columns:  # the inner loop goes along the longer axis
            column[-2:] = column[:-3:-1]
    return f"copy_strided_{size}", [ndim, *itertools.chain(*columns)]
