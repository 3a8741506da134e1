"""From a program to kernels: which kernel runs each op, and with which integers."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable

from sdbr.backends.cpu.prepare.operands import Operand
from sdbr.backends.cpu.prepare.splitting import split_of
from sdbr.base.errors import BackendError
from sdbr.ops.table import BY_NAME, OPS
from sdbr.program.program import Program

import numpy as np


@dataclasses.dataclass
class KernelPlan:
    """Kernels and integers of a program.

    Attributes
    ----------
    names : list of str
        The distinct kernels.
    kernels : numpy.ndarray
        int32[n], per op an index into `names`; -1 for a Python op.
    int_starts : numpy.ndarray
        int64[n], where the integers of the op begin.
    ints : numpy.ndarray
        int64[]; equal ops share their integers.
    choices : dict
        Index of an op -> the choice that was made for it.
    inner : list of (int, int)
        Index into `ints` of the address of a kernel, and the index of that kernel in `names`.
    """

    names: list[str]
    kernels: np.ndarray
    int_starts: np.ndarray
    ints: np.ndarray
    choices: dict[int, object] = dataclasses.field(default_factory=dict)
    inner: list[tuple[int, int]] = dataclasses.field(default_factory=list)


def prepare_program(program: Program, threads: int = 1) -> KernelPlan:
    """Choose the kernel of every op; equal ops are prepared once.

    Parameters
    ----------
    program : Program
    threads : int
        Above 1, large ops are cut into parts.

    Raises
    ------
    BackendError
        If an op has no kernel; the message names the op and its index.
    """
    known_kernels: dict[str, int] = {}
    plans: dict[tuple, tuple[int, int, object]] = {}
    choices: dict[int, object] = {}
    inner: list[tuple[int, int]] = []
    ints: list[int] = []
    kernels: list[int] = []
    starts: list[int] = []
    layouts, layout_of_row = _layouts(program)
    operand_layouts = np.asarray(layout_of_row, np.int64)[program.operands].tolist()
    offsets = program.operand_offsets.tolist()
    n_outputs = program.n_outputs.tolist()
    int_offsets = program.attribute_offsets[:, 0].tolist()
    attributes = program.int_attributes.tolist()
    families: dict[int, Callable] = {}
    for i, opcode in enumerate(program.opcodes.tolist()):
        if opcode == 0:
            kernels.append(-1)
            starts.append(0)
            continue
        key = (
            opcode,
            n_outputs[i],
            *operand_layouts[offsets[i] : offsets[i + 1]],
            None,
            *attributes[int_offsets[i] : int_offsets[i + 1]],
        )
        plan = plans.get(key)
        if plan is None:
            prepare = families.get(opcode)
            if prepare is None:
                prepare = families[opcode] = _family(opcode)
            operands = [layouts[k] for k in operand_layouts[offsets[i] : offsets[i + 1]]]
            cut = len(operands) - n_outputs[i]
            own = tuple(attributes[int_offsets[i] : int_offsets[i + 1]])
            try:
                name, numbers, *choice = prepare(
                    OPS[opcode].name, operands[:cut], operands[cut:], own
                )
            except BackendError as error:
                raise BackendError(f"{error}; op {i}: {program.describe_op(i).strip()}") from error
            number = known_kernels.setdefault(name, len(known_kernels))
            split = None
            if threads > 1:
                split = split_of(name, operands[:cut], operands[cut:], numbers)
            if split is not None:
                inner.append((len(ints), number))
                number = known_kernels.setdefault("split", len(known_kernels))
                numbers = [*split.header(0, len(numbers)), *numbers]
            plan = (number, len(ints), choice)
            ints.extend(numbers)
            plans[key] = plan
        kernels.append(plan[0])
        starts.append(plan[1])
        if plan[2]:
            choices[i] = plan[2][0]
    for i in np.flatnonzero(program.opcodes == BY_NAME["fork"].opcode).tolist():
        _prepare_fork(i, attributes[int_offsets[i] :], known_kernels, kernels, starts, ints, inner)
    return KernelPlan(
        list(known_kernels),
        np.array(kernels, np.int32),
        np.array(starts, np.int64),
        np.array(ints or [0], np.int64),
        choices,
        inner,
    )


def _prepare_fork(i, lengths, known_kernels, kernels, starts, ints, inner) -> None:
    """Give the kernels of all branches to the fork; the loop then passes over these ops."""
    lengths = lengths[: len(BY_NAME["fork"].ints)]
    starts[i] = len(ints)
    ints.extend([sum(n > 0 for n in lengths), *lengths])
    for k in range(i + 1, i + 1 + sum(lengths)):
        inner.append((len(ints), kernels[k]))
        ints.append(0)
        kernels[k] = known_kernels.setdefault("nop", len(known_kernels))


def _layouts(program: Program) -> tuple[list[Operand], list[int]]:
    """The distinct operand layouts, and which of them each row has."""
    known: dict[Operand, int] = {}
    of_row: list[int] = []
    dims = program.dims.tolist()
    rows = program.rows
    for code, start, ndim in zip(
        rows["type"].tolist(), rows["dims"].tolist(), rows["ndim"].tolist(), strict=True
    ):
        middle = start + ndim
        layout = (code, tuple(dims[start:middle]), tuple(dims[middle : middle + ndim]))
        of_row.append(known.setdefault(layout, len(known)))
    return list(known), of_row


def _family(opcode: int) -> Callable:
    family = OPS[opcode].family
    try:
        return importlib.import_module(f"sdbr.backends.cpu.{family}").prepare
    except ModuleNotFoundError as error:
        raise BackendError(f"the family {family!r} has no kernels") from error
