"""Operands as the prepare functions see them."""

from __future__ import annotations

from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import BackendError
from sdbr.program.buffers import is_c_contiguous

#: dtype code, shape, strides in bytes.
Operand = tuple[int, tuple[int, ...], tuple[int, ...]]


def suffix(operand: Operand) -> str:
    """``'f4'``, ``'f8'``, ...: how kernel names spell the dtype of an operand."""
    return DTYPES[operand[0]].str[1:] if DTYPES[operand[0]].kind != "b" else "b1"


def contiguous(name: str, operands: list[Operand]) -> None:
    """Raise BackendError unless every operand is C-contiguous."""
    for code, shape, strides in operands:
        if not is_c_contiguous(shape, strides, DTYPES[code].itemsize):
            raise BackendError(
                f"op {name!r} takes C-contiguous operands, got {DTYPES[code].name}{list(shape)} "
                f"with strides {list(strides)}"
            )
