"""From a program to launches, and to the source of their kernels."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from sdbr.backends.cuda.launch import Launch
from sdbr.base.errors import BackendError
from sdbr.ops.table import OPS
from sdbr.program.program import Program

#: Families of ops with kernels for GPUs; all other ops are Chainer's own code.
FAMILIES = ("elementwise", "fused", "special")
_PREPARE = {
    family: importlib.import_module(f"sdbr.backends.cuda.{family}").prepare for family in FAMILIES
}
_WANTED = "wanted.cuh"
_SOURCE = f'#define SDBR_WANTED "{_WANTED}"\n#include "device/elementwise.cuh"\n'


def launches(program: Program) -> list[Launch | None]:
    """The launch of each op; None for an op without a kernel for GPUs."""
    return [_launch(program, i) for i in range(len(program))]


def _launch(program: Program, i: int) -> Launch | None:
    op = OPS[int(program.opcodes[i])]
    prepare = _PREPARE.get(op.family)
    if prepare is None:
        return None
    in_rows, out_rows, ints, _ = program.operands_of(i) + program.attributes_of(i)
    try:
        return prepare(
            op, *([_operand(program, r) for r in rows] for rows in (in_rows, out_rows)), ints
        )
    except BackendError:
        return None


def _operand(program: Program, r: int) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    row = program.rows[r]
    return int(row["type"]), tuple(program.row_shape(r)), tuple(program.row_strides(r))


def source(wanted: Iterable[Launch]) -> tuple[str, dict[str, str]]:
    """The source of the kernels of these launches, and the header that it includes.

    Each kernel is there once, whatever the order of the launches.
    """
    texts: dict[str, set[str]] = {"f4": set(), "f8": set()}
    for launch in wanted:
        texts[launch.kernel[-2:]].add(launch.text)
    parts = ["#if SDBR_FLOATS", *sorted(texts["f4"]), "#else", *sorted(texts["f8"]), "#endif", ""]
    return _SOURCE, {_WANTED: "\n".join(parts)}
