"""Losses, accuracy, select_item: canonical, C-contiguous operands; labels of any integer dtype."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, contiguous
from sdbr.backends.cpu.prepare.space import Prepared, describe, floating, product
from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import BackendError
from sdbr.ops.table import BY_NAME


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> Prepared:
    """Kernel and integers of an op of the family ``loss``.

    Raises
    ------
    BackendError
        For dtypes without kernels, shapes that are not those of the op table,
        gaps, and classes that are none.
    """
    operands = [*ins, *outs]
    words = [*BY_NAME[name].inputs, *BY_NAME[name].outputs]
    labels = [i for i, word in enumerate(words) if word.endswith(":I")]
    numbers = [x for i, x in enumerate(operands) if i not in labels]
    if any(DTYPES[operands[i][0]].kind not in "iu" for i in labels):
        raise BackendError(f"op {name!r} takes labels of an integer dtype; got {describe(ins)}")
    suffix = floating(name, numbers, operands)
    contiguous(name, operands)
    for family, function in _LAYOUTS:
        if name.startswith(family):
            space = function(name, ins, outs, ints)
            if space is None:
                raise BackendError(
                    f"op {name!r} takes {', '.join(words)} in the shapes of the op table; "
                    f"got {describe(ins)} -> {describe(outs)}"
                )
            kernel = "argmax_op" if name == "argmax" else name
            return f"{kernel}_{suffix}", space
    raise BackendError(f"op {name!r} has no native kernel")


def _same(*operands: Operand) -> bool:
    return all(x[1] == operands[0][1] for x in operands)


def _scalars(*operands: Operand) -> bool:
    return all(product(x[1]) == 1 for x in operands)


def _classes(x: Operand, t: Operand) -> bool:
    """x[outer, c, inner] and t[outer, inner], with at least one class where there is a label."""
    shape = x[1]
    return len(shape) == 3 and t[1] == (shape[0], shape[2]) and (shape[1] > 0 or 0 in t[1])


def _cross_entropy(name, ins, outs, ints):
    gradient, reduced = name.endswith("_grad"), "no_reduce" not in name
    # x t w? -> loss lse coeff? and x t lse coeff? gloss w? -> gx
    fixed = 2 + (2 + reduced if gradient else 0)
    x, t, weights = ins[0], ins[1], ins[fixed:]
    fine = _classes(x, t) and len(weights) <= 1 and all(w[1] == x[1][1:2] for w in weights)
    if gradient:
        fine = fine and _same(x, outs[0]) and _same(t, ins[2])
        fine = fine and (_scalars(ins[3], ins[4]) if reduced else _same(t, ins[3]))
    else:
        fine = fine and _same(t, outs[1])
        fine = fine and (_scalars(outs[0], outs[2]) if reduced else _same(t, outs[0]))
    if not fine:
        return None
    normalize, ignore = (0, *ints)[-2:]
    return [*x[1], t[0], len(weights), ignore, normalize]


def _accuracy(name, ins, outs, ints):
    x, t = ins
    return [*x[1], t[0], *ints] if _classes(x, t) and _scalars(outs[0]) else None


def _select_item(name, ins, outs, ints):
    t = ins[0] if name.endswith("_grad") else ins[1]
    x, y = (outs[0], ins[1]) if name.endswith("_grad") else (ins[0], outs[0])
    if len(x[1]) != 2 or t[1] != x[1][:1] or not _same(t, y):
        return None
    return [*x[1], t[0]]


def _negate_item(name, ins, outs, ints):
    x, t = ins
    fine = len(x[1]) == 2 and t[1] == x[1][:1] and _same(x, outs[0])
    return [*x[1], t[0]] if fine else None


def _sigmoid(name, ins, outs, ints):
    x, t = ins[0], ins[1]
    if name == "sigmoid_cross_entropy":
        fine = _scalars(*outs)
    elif name == "sigmoid_cross_entropy_grad":
        fine = _scalars(ins[2], ins[3]) and _same(x, outs[0])
    else:
        fine = _same(x, *ins[2:], *outs)
    return [product(x[1]), t[0], *ints] if fine and _same(x, t) else None


def _mean(name, ins, outs, ints):
    fine = _same(ins[0], ins[1])
    if name.endswith("_grad"):
        fine = fine and _scalars(ins[2]) and _same(ins[0], outs[0])
    else:
        fine = fine and _scalars(outs[0])
    return [product(ins[0][1])] if fine else None


def _argmax(name, ins, outs, ints):
    x, y = ins[0], outs[0]
    fits = _classes(x, y) and DTYPES[y[0]] == "i4"
    return [*x[1]] if fits else None


_LAYOUTS = (
    ("argmax", _argmax),
    ("softmax_cross_entropy", _cross_entropy),
    ("accuracy", _accuracy),
    ("select_item", _select_item),
    ("negate_item", _negate_item),
    ("sigmoid_cross_entropy", _sigmoid),
    ("mean_", _mean),
)
