"""Recurrent cells: canonical, C-contiguous operands."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, contiguous
from sdbr.backends.cpu.prepare.space import Prepared, describe, floating
from sdbr.base.errors import BackendError
from sdbr.ops.table import BY_NAME


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> Prepared:
    """Kernel and integers of an op of the family ``recurrent``.

    Raises
    ------
    BackendError
        For dtypes without kernels, gaps, and shapes that are not those of the op table.
    """
    operands = [*ins, *outs]
    suffix = floating(name, operands, operands)
    contiguous(name, operands)
    shapes = [x[1] for x in operands]
    space = (_tree if name.startswith("tree") else _cell)(name, shapes, len(ins), tuple(ints))
    if space is None:
        words = [*BY_NAME[name].inputs, *BY_NAME[name].outputs]
        raise BackendError(
            f"op {name!r} takes {', '.join(words)} in the shapes of the op table; "
            f"got {describe(ins)} -> {describe(outs)}"
        )
    return f"{name}_{suffix}", space


def _cell(name, shapes, n_ins, ints) -> list[int] | None:
    """Number of cells, and which gradients there are."""
    if not _proper(ints):
        return None
    pattern = {
        "lstm": "cx xcc",
        "lstm_grad": "xcc" + "c" * sum(ints) + " xc",
        "slstm": "ccxx cc",
        "slstm_grad": "ccxxc" + "c" * sum(ints) + " xxcc",
    }[name]
    wanted = pattern.replace(" ", "")
    c = shapes[wanted.index("c")]
    fits = len(c) == 1 and pattern.index(" ") == n_ins and len(wanted) == len(shapes)
    known = {"c": c, "x": (*c, 4)}
    if not fits or any(known[k] != s for k, s in zip(wanted, shapes, strict=True)):
        return None
    return [*c, *ints]


def _tree(name, shapes, n_ins, ints) -> list[int] | None:
    x = shapes[0]
    if len(x) != 3 or not _proper(ints):
        return None
    n, children, cells = x[0], x[1] - 3, x[2]
    plain = [(n, cells)]
    if ints:
        wanted = [x, *plain * (1 + children + sum(ints)), x, *plain * children]
        n_wanted = 2 + children + sum(ints)
    else:
        wanted = [x, *plain * (children + 2)]
        n_wanted = 1 + children
    if children < 1 or shapes != wanted or n_ins != n_wanted:
        return None
    return [n, children, cells, *ints]


def _proper(ints) -> bool:
    """At least one gradient must be there where there may be any."""
    return not ints or (set(ints) <= {0, 1} and sum(ints) > 0)
