"""From a program to launches, and to the source of their kernels."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

from sdbr.backends.cuda.launch import Launch, Launches
from sdbr.backends.cuda.machine import FAMILIES
from sdbr.base.errors import BackendError
from sdbr.ops.table import OPS
from sdbr.program.buffers import BOUND, OWNED
from sdbr.program.program import Program

import numpy as np

_PREPARE = {
    family: importlib.import_module(f"sdbr.backends.cuda.families.{family}").prepare
    for family in FAMILIES
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


def refuse_missing(
    program: Program, launched: Sequence[Launches | None], has_other: Callable[[int], bool]
) -> None:
    """Raise for the first op that neither has a kernel nor anything else that runs it."""
    for i, found in enumerate(launched):
        if found is None and not has_other(i):
            raise BackendError(f"no kernel for GPUs: {program.describe_op(i).strip()}")


def addresses(memory, slots: np.ndarray) -> np.ndarray:
    """Where the arrays lie that slots of a memory are bound to.

    Raises
    ------
    ValueError
        If a slot is not bound.
    """
    found = memory.addresses()[slots]
    if not found.all():
        unbound = slots[np.flatnonzero(found == 0)[0]]
        raise ValueError(f"slot {unbound} is not bound to an array")
    return found


def stretches(launched: Sequence[Launches | None]) -> Iterator[range]:
    """Ops that run together: all that have kernels and follow each other; others alone."""
    at = 0
    for is_native, group in itertools.groupby(x is not None for x in launched):
        n = len(list(group))
        yield from (
            [range(at, at + n)] if is_native else (range(k, k + 1) for k in range(at, at + n))
        )
        at += n


def lasting(program: Program) -> frozenset[int]:
    """Ops that write what shows afterwards that the run was: not where it was wrong.

    What a call gives anew is written all the same: others would read what lay there before.
    The gradients of a whole step are those of the step before until then.
    """
    ops = [OPS[int(opcode)] for opcode in program.opcodes]
    lasts = {BOUND, OWNED} if any(op.updates for op in ops) else {BOUND}
    slots = program.rows["slot"]

    def does_last(i: int) -> bool:
        _, outs = program.operands_of(i)
        return ops[i].updates or any(program.slots[slots[r]].kind in lasts for r in outs)

    return frozenset(i for i in range(len(program)) if does_last(i))


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
