"""Normalization: canonical x[outer, c, inner] with a number per channel, C-contiguous."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, contiguous
from sdbr.backends.cpu.prepare.space import Prepared, describe, floating
from sdbr.base.errors import BackendError

#: Elements of a plane from which it is taken as a row of vectors of its own (measured).
PLANE = 32
#: The widest vector: shorter runs cannot be taken as vectors.
VECTOR = 16
#: The most neighbours to one side; the kernel keeps so many in a window.
HALF = 15


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> Prepared:
    """Kernel and integers of an op of the family ``normalization``.

    Raises
    ------
    BackendError
        For dtypes without kernels, shapes that are not those of the op table, gaps, and the
        moments of nothing.
    """
    operands = [*ins, *outs]
    suffix = floating(name, operands, operands)
    contiguous(name, operands)
    space = _PREPARE[name](ins, outs, ints)
    if space is None:
        raise BackendError(
            f"op {name!r} takes operands as the op table says; "
            f"got {describe(ins)} -> {describe(outs)}"
        )
    kernel, numbers = space
    return f"{kernel}_{suffix}", numbers


def _shapes(operands: Sequence[Operand], positions: Sequence[int], shape: tuple) -> bool:
    return all(operands[i][1] == shape for i in positions)


def _by_plane(name: str, shape: tuple[int, ...]) -> str:
    return f"{name}_planes" if shape[2] >= PLANE else f"{name}_columns"


def _batch_norm(name, like_x, like_c, more=lambda ins, ints: ints[0] if ints else 0, extras=1):
    """Operands `like_x` have the shape of the first one, operands `like_c` one axis.

    One more input may have the shape of the first one. The step from one of the outer axis to the
    next is an integer of its own: a part of the op has fewer channels.
    """

    def prepare(ins, outs, ints):
        shape = ins[0][1]
        operands = [*ins, *outs]
        extra = len(operands) - len(like_x) - len(like_c)
        cut = len(ins) - extra
        fixed = operands[:cut] + operands[cut + extra :]
        fine = len(shape) == 3 and 0 not in shape and 0 <= extra <= extras
        fine = fine and _shapes(fixed, like_x, shape) and _shapes(fixed, like_c, shape[1:2])
        if not fine or any(x[1] != shape for x in operands[cut : cut + extra]):
            return None
        return _by_plane(name, shape), [*shape, more(ins, ints), shape[1] * shape[2], extra]

    return prepare


def _update_statistics(ins, outs, ints):
    shape = ins[0][1]
    if len(shape) != 1 or not _shapes([*ins, *outs], range(6), shape):
        return None
    return "update_statistics", [*shape, *ints]


def _group_norm(name, like_x, like_rows, like_gamma):
    def prepare(ins, outs, ints):
        shape = ins[0][1]
        operands = [*ins, *outs]
        if len(shape) != 3 or 0 in shape or len(ins[1][1]) != 1:
            return None
        numbers = ins[1][1][0]
        fine = _shapes(operands, like_x, shape) and _shapes(operands, like_rows, shape[:2])
        fine = fine and _shapes(operands, like_gamma, (numbers,))
        if not fine or numbers % shape[1] or shape[1] * shape[2] % numbers:
            return None
        run = shape[1] * shape[2] // numbers
        if 1 < run < VECTOR:
            return None
        return f"{name}_{'elements' if run == 1 else 'planes'}", [*shape, run, *ints]

    return prepare


def _local_response(name):
    def prepare(ins, outs, ints):
        shape = ins[0][1]
        fine = len(shape) == 3 and _shapes([*ins, *outs], range(len(ins) + 1), shape)
        return (name, [*shape, *ints]) if fine and 0 <= ints[0] <= HALF else None

    return prepare


_PREPARE = {
    "batch_norm": _batch_norm("batch_norm", (0, 3), (1, 2, 4, 5)),
    "batch_norm_grad": _batch_norm(
        "batch_norm_grad", (0, 4, 5), (1, 2, 3, 6, 7), lambda ins, ints: len(ins) - 5
    ),
    "batch_norm_relu_grad": _batch_norm(
        "batch_norm_relu_grad", (0, 5, 6), (1, 2, 3, 4, 7, 8), extras=0
    ),
    "batch_norm_sums": _batch_norm("batch_norm_sums", (0, 3), (1, 2, 4, 5), extras=0),
    "fixed_batch_norm": _batch_norm("fixed_batch_norm", (0, 5), (1, 2, 3, 4)),
    "update_statistics": _update_statistics,
    "group_norm": _group_norm("group_norm", (0, 3), (4, 5), (1, 2)),
    "group_norm_grad": _group_norm("group_norm_grad", (0, 4, 5), (2, 3), (1, 6, 7)),
    "local_response": _local_response("local_response"),
    "local_response_grad": _local_response("local_response_grad"),
}
