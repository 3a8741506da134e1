"""Ops on array elements: by index, by condition, along an axis, between images."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, contiguous
from sdbr.backends.cpu.prepare.space import Prepared, describe, floating, strided
from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import BackendError
from sdbr.base.limits import MAX_DIM


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> Prepared:
    """Kernel and integers of an op of the family ``array``.

    Raises
    ------
    BackendError
        For dtypes without kernels and shapes that are not those of the op table.
    """
    return _LAYOUTS[name](name, list(ins), list(outs), list(ints))


def _wrong(name, ins, outs) -> BackendError:
    return BackendError(
        f"op {name!r} takes operands as the op table says; got {describe(ins)} -> {describe(outs)}"
    )


def _by_index(name, ins, outs, ints) -> Prepared:
    """x strided, its counterpart [outer, m, inner] and the indices contiguous."""
    x, rows = (ins[0], outs[0]) if name == "take" else (outs[0], ins[0])
    t = ins[1:]
    accumulate, has_ignore, ignore = (0, *ints)[-3:]
    fine = (
        x[0] == rows[0]
        and (len(t) == 1 if has_ignore else 1 <= len(t) <= MAX_DIM)
        and len(x[1]) == len(t) + 2
        and all(DTYPES[k[0]].kind in "iu" and k[1] == t[0][1] and len(k[1]) == 1 for k in t)
    )
    if not fine or rows[1] != (x[1][0], *t[0][1], x[1][-1]):
        raise _wrong(name, ins, outs)
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
    return f"scatter_add_{floating(name, [x, rows], [*ins, *outs])}", [
        *numbers,
        -1 if accumulate else total,
    ]


def _where(name, ins, outs, ints) -> Prepared:
    c, x, y, z = *ins, *outs
    if DTYPES[c[0]].kind != "b" or not x[0] == y[0] == z[0]:
        raise _wrong(name, ins, outs)
    return f"where_{DTYPES[z[0]].itemsize}", strided(name, [c, x, y, z])


def _along(name, ins, outs, ints) -> Prepared:
    """x[outer, n, inner], some operands without n."""
    operands = [*ins, *outs]
    suffix = floating(name, operands, operands)
    contiguous(name, operands)
    x = ins[0][1]
    full = {"prod": [0], "prod_grad": [0, 2]}.get(name, range(len(operands)))
    shapes = [x if i in full else (x[0], *x[2:]) for i in range(len(operands))]
    if len(x) != 3 or [operand[1] for operand in operands] != shapes:
        raise _wrong(name, ins, outs)
    return f"{name}_{suffix}", [*x, *ints]


def _resize(name, ins, outs, ints) -> Prepared:
    x, y = (outs[0], ins[0]) if name.endswith("_grad") else (ins[0], outs[0])
    suffix = floating(name, [x, y], [x, y])
    contiguous(name, [x, y])
    if len(x[1]) != 3 or len(y[1]) != 3 or x[1][0] != y[1][0] or 0 in x[1][1:]:
        raise _wrong(name, ins, outs)
    return f"{name}_{suffix}", [*x[1], *y[1][1:], *ints]


_LAYOUTS = {
    "take": _by_index,
    "put": _by_index,
    "scatter_add": _by_index,
    "where": _where,
    **dict.fromkeys(("cumsum", "cumprod", "cumprod_grad", "prod", "prod_grad"), _along),
    "resize": _resize,
    "resize_grad": _resize,
}
