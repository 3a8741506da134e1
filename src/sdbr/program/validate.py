"""The check that every program passes before an executor sees it."""

from __future__ import annotations

import functools

from sdbr.base.errors import ValidationError
from sdbr.ops.table import OPS
from sdbr.program._indices import check_ops, check_rows, unlike_ops


def validate_program(program) -> None:
    """Raise `ValidationError` unless the flat arrays form a program.

    Indices are looked at all at once, operands once for each kind of op and layouts.
    """
    n = len(program.opcodes)
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
    check_rows(program)
    _check_operands(program)
    refs = program.control_references
    if len(refs):
        inside = (
            (refs[:, 0] >= 0) & (refs[:, 0] < len(program.float_attributes)) & (refs[:, 1] >= 0)
        )
        _check(bool(inside.all()), "control_references point outside float_attributes")


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise ValidationError(message)


def _check_operands(program) -> None:
    """Dtypes and shapes of operands, by the rules of the op table; equal ops are checked once."""
    for i, code, *given in unlike_ops(program):
        problem = _problem(code, *given)
        if problem:
            origin = program.describe_origin(i)
            where = f"; {origin}" if origin else ""
            raise ValidationError(f"op {i} ({OPS[code].name}): {problem}{where}")


@functools.lru_cache(maxsize=4096)
def _problem(code: int, ins: tuple, outs: tuple, ints: tuple, n_floats: int) -> str:
    """What the op table says of such an op, which networks have in common."""
    return OPS[code].problem(ins, outs, ints, [0.0] * n_floats)
