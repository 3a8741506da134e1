"""From a program to launches, and to the source of their kernels."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from sdbr.backends.cuda.launch import Launch, Launches
from sdbr.base.errors import BackendError
from sdbr.ops.table import OPS
from sdbr.program.program import Program

#: Families of ops with kernels for GPUs; all other ops are Chainer's own code.
FAMILIES = (
    "array",
    "data",
    "elementwise",
    "fused",
    "loss",
    "product",
    "random",
    "recurrent",
    "reduction",
    "special",
    "update",
)
_PREPARE = {
    family: importlib.import_module(f"sdbr.backends.cuda.{family}").prepare for family in FAMILIES
}
_WANTED = "wanted.cuh"
_SOURCE = f'#define SDBR_WANTED "{_WANTED}"\n#include "device/kernels.cuh"\n'


def launches(program: Program) -> list[Launches | None]:
    """The launches of each op; None for an op without a kernel for GPUs."""
    return [_launches(program, i) for i in range(len(program))]


def _launches(program: Program, i: int) -> Launches | None:
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
    texts: dict[str, set[str]] = {"f4": set(), "f8": set(), "": set(), "chain": set()}
    for launch in wanted:
        texts[launch.section].add(launch.text)
    single, double, other, chains = (sorted(texts[section]) for section in texts)
    lines = [
        "#if SDBR_FLOATS == 1",
        *single,
        "#elif SDBR_FLOATS == 0",
        *double,
        "#else",
        *other,
        *chains,
    ]
    return _SOURCE, {_WANTED: "\n".join([*lines, "#endif", ""])}
