"""The check that every program passes before an executor sees it."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from sdbr.base.errors import ValidationError
from sdbr.ops.op import Op
from sdbr.ops.table import OPS
from sdbr.program.buffers import ROW_DTYPE
from sdbr.program.checks._indices import MOST_NUMBERED, check_ops, check_rows
from sdbr.program.checks._operands import unlike_ops

import numpy as np

#: Operands that share memory, see `overlap_problem`.
Meetings = Sequence[tuple[int, int, bool]]
#: Arrays of a program: dtype and axes.
_ARRAYS = {
    "opcodes": (np.int32, 1),
    "operand_offsets": (np.int32, 1),
    "operands": (np.int32, 1),
    "n_outputs": (np.int32, 1),
    "attribute_offsets": (np.int32, 2),
    "int_attributes": (np.int64, 1),
    "float_attributes": (np.float64, 1),
    "control_references": (np.int32, 2),
    "rows": (ROW_DTYPE, 1),
    "dims": (np.int64, 1),
}


def validate_program(program) -> None:
    """Raise `ValidationError` unless the flat arrays form a program.

    Indices are looked at all at once, operands once for each kind of op and layouts.
    """
    for name, (dtype, ndim) in _ARRAYS.items():
        array = getattr(program, name)
        _check(
            isinstance(array, np.ndarray)
            and array.dtype == dtype
            and array.ndim == ndim
            and array.shape[1:] in ((), (2,))
            and array.flags.c_contiguous,
            f"{name} must be a C-contiguous array of {np.dtype(dtype)}, {ndim} axes",
        )
    n = len(program.opcodes)
    texts = (program.labels, program.lines, program.links)
    _check(
        all(len(kind) in (0, n) for kind in texts),
        "labels, lines and links must have one entry per op",
    )
    _check(
        len(program.operand_offsets) == n + 1,
        "operand_offsets must have one entry more than opcodes",
    )
    _check(
        len(program.attribute_offsets) == n + 1,
        "attribute_offsets must have one entry more than opcodes",
    )
    _check(len(program.n_outputs) == n, "n_outputs must have one entry per op")
    flushes = program.flushes
    _check(
        flushes is None or (flushes.shape == (n,) and flushes.dtype == bool),
        "flushes must have one bool per op",
    )
    check_ops(program)
    _check_operands(program, check_rows(program))
    refs = program.control_references
    if len(refs):
        inside = (
            (refs[:, 0] >= 0) & (refs[:, 0] < len(program.float_attributes)) & (refs[:, 1] >= 0)
        )
        _check(bool(inside.all()), "control_references point outside float_attributes")
        most = int(refs[:, 1].max())
        _check(most < MOST_NUMBERED, f"control slot {most}, expected less than {MOST_NUMBERED}")


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise ValidationError(message)


def _check_operands(program, reached: np.ndarray) -> None:
    """Dtypes and shapes of operands, by the rules of the op table; equal ops are checked once."""
    for i, code, *given in unlike_ops(program, reached):
        problem = _problem(code, *given)
        if problem:
            origin = program.describe_origin(i)
            where = f"; {origin}" if origin else ""
            raise ValidationError(f"op {i} ({OPS[code].name}): {problem}{where}")


@functools.lru_cache(maxsize=4096)
def _problem(
    code: int, ins: tuple, outs: tuple, ints: tuple, n_floats: int, meetings: tuple
) -> str:
    """What the op table says of such an op, which networks have in common."""
    op, floats = OPS[code], [0.0] * n_floats
    return op.problem(ins, outs, ints, floats) or overlap_problem(
        op, len(ins), len(outs), ints, floats, meetings
    )


def overlap_problem(
    op: Op, n_in: int, n_out: int, ints: Sequence[int], floats: Sequence, meetings: Meetings
) -> str:
    """What is wrong with memory that operands share; empty when nothing is.

    Parameters
    ----------
    op : Op
    n_in, n_out : int
        How many inputs and outputs there are.
    ints, floats : sequence
        Attributes.
    meetings : sequence of (int, int, bool)
        An operand that is written, counted from the first input on, another one that shares
        bytes with it, and whether both lie in the same place, element for element.
    """
    if not meetings:
        return ""
    fine = {*op.memory_sharing(n_in, n_out, ints, floats), *op.updated}
    replaced = {a for a, b, exact in meetings if exact and (a - n_in, b) in fine}
    for a, b, exact in meetings:
        # What lies where an input lies that an output may replace is read when that one is.
        if exact and a in replaced and b < n_in:
            continue
        only = ", of which it may only take the place as a whole" if (a - n_in, b) in fine else ""
        return f"{_operand(op, a, n_in)} overlaps {_operand(op, b, n_in)}{only}"
    return ""


def _operand(op: Op, k: int, n_in: int) -> str:
    """``input 0 (x)``: how messages call an operand."""
    kind, words, k = ("input", op.words[0], k) if k < n_in else ("output", op.words[1], k - n_in)
    return f"{kind} {k} ({words[min(k, len(words) - 1)][0]})"
