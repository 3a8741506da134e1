"""Ops on array elements: by index, by condition, along an axis, between images."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, contiguous, suffix
from sdbr.backends.cpu.prepare.space import KernelCall, describe, strided
from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import BackendError
from sdbr.base.limits import MAX_DIM


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> KernelCall:
    """Kernel and integers of an op of the family ``array``.

    Raises
    ------
    BackendError
        For gaps, labels to ignore among several indices, images of nothing, and more axes than a
        kernel counts.
    """
    return _LAYOUTS[name](name, list(ins), list(outs), list(ints))


def _by_index(name, ins, outs, ints) -> KernelCall:
    """x strided, its counterpart [outer, m, inner] and the indices contiguous."""
    x, rows = (ins[0], outs[0]) if name == "take" else (outs[0], ins[0])
    t = ins[1:]
    accumulate, has_ignore, ignore = (0, *ints)[-3:]
    if len(t) > (1 if has_ignore else MAX_DIM):
        raise BackendError(f"op {name!r} has no kernel for so many indices: {describe(ins)}")
    contiguous(name, [rows, *t])
    size = DTYPES[x[0]].itemsize
    (outer, m, inner), steps = rows[1], x[2]
    numbers = [outer, m, inner, len(t), has_ignore, ignore, steps[0], steps[-1]]
    for n, step, k in zip(x[1][1:-1], steps[1:-1], t, strict=True):
        numbers += [n, step, k[0]]
    if name != "scatter_add":
        return f"{name}_{size}", numbers
    if not accumulate:
        contiguous(name, [x])
    total = 1
    for n in x[1]:
        total *= n
    return f"scatter_add_{suffix(x)}", [
        *numbers,
        -1 if accumulate else total,
    ]


def _where(name, ins, outs, ints) -> KernelCall:
    c, x, y, z = *ins, *outs
    return f"where_{DTYPES[z[0]].itemsize}", strided(name, [c, x, y, z])


def _along(name, ins, outs, ints) -> KernelCall:
    """x[outer, n, inner], some operands without n."""
    contiguous(name, [*ins, *outs])
    return f"{name}_{suffix(ins[0])}", [*ins[0][1], *ints]


def _resize(name, ins, outs, ints) -> KernelCall:
    x, y = (outs[0], ins[0]) if name.endswith("_grad") else (ins[0], outs[0])
    contiguous(name, [x, y])
    if 0 in x[1][1:]:
        raise BackendError(f"op {name!r} of nothing: {describe([x])}")
    return f"{name}_{suffix(x)}", [*x[1], *y[1][1:], *ints]


_LAYOUTS = {
    "take": _by_index,
    "put": _by_index,
    "scatter_add": _by_index,
    "where": _where,
    **dict.fromkeys(("cumsum", "cumprod", "cumprod_grad", "prod", "prod_grad"), _along),
    "resize": _resize,
    "resize_grad": _resize,
}
