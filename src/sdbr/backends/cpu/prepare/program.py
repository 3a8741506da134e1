"""From a program to kernels: which kernel runs each op, and with which integers."""

from __future__ import annotations

import dataclasses
import functools
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
    return _Planner(program, threads).plan()


class _Planner:
    """Fills in a `KernelPlan`, op by op."""

    def __init__(self, program: Program, threads: int) -> None:
        self.program = program
        self.threads = threads
        self.names: dict[str, int] = {}
        self.kernels: list[int] = []
        self.starts: list[int] = []
        self.ints: list[int] = []
        self.choices: dict[int, object] = {}
        self.inner: list[tuple[int, int]] = []
        #: What an op is -> its kernel, where its integers begin, and what was chosen.
        self.known: dict[tuple, tuple[int, int, list]] = {}
        self.layouts, of_row = _layouts(program)
        self.operands = np.asarray(of_row, np.int64)[program.operands].tolist()
        self.offsets = program.operand_offsets.tolist()
        self.n_outputs = program.n_outputs.tolist()
        self.attribute_offsets = program.attribute_offsets[:, 0].tolist()
        self.attributes = program.int_attributes.tolist()

    def plan(self) -> KernelPlan:
        for i, opcode in enumerate(self.program.opcodes.tolist()):
            kernel, start, choice = (-1, 0, []) if opcode == 0 else self._of_op(i, opcode)
            self.kernels.append(kernel)
            self.starts.append(start)
            if choice:
                self.choices[i] = choice[0]
        for i in np.flatnonzero(self.program.opcodes == BY_NAME["fork"].opcode).tolist():
            self._fork(i)
        return KernelPlan(
            list(self.names),
            np.array(self.kernels, np.int32),
            np.array(self.starts, np.int64),
            np.array(self.ints or [0], np.int64),
            self.choices,
            self.inner,
        )

    def _of_op(self, i: int, opcode: int) -> tuple[int, int, list]:
        """Kernel, where its integers begin, and what was chosen; made at the first op like it."""
        layouts = self.operands[self.offsets[i] : self.offsets[i + 1]]
        ints = self.attributes[self.attribute_offsets[i] : self.attribute_offsets[i + 1]]
        key = (opcode, self.n_outputs[i], *layouts, None, *ints)
        known = self.known.get(key)
        if known is None:
            operands = [self.layouts[k] for k in layouts]
            cut = len(operands) - self.n_outputs[i]
            try:
                known = self._make(opcode, operands[:cut], operands[cut:], tuple(ints))
            except BackendError as error:
                described = self.program.describe_op(i).strip()
                raise BackendError(f"{error}; op {i}: {described}") from error
            self.known[key] = known
        return known

    def _make(self, opcode: int, ins, outs, own: tuple[int, ...]) -> tuple[int, int, list]:
        name, numbers, *choice = _family(opcode)(OPS[opcode].name, ins, outs, own)
        kernel = self._number(name)
        split = split_of(OPS[opcode], name, ins, outs, numbers) if self.threads > 1 else None
        if split is not None:
            self.inner.append((len(self.ints), kernel))
            kernel = self._number("split")
            numbers = [*split.header(0, len(numbers)), *numbers]
        start = len(self.ints)
        self.ints.extend(numbers)
        return kernel, start, choice

    def _number(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

    def _fork(self, i: int) -> None:
        """Give the kernels of all branches to the fork; the loop then passes over these ops."""
        first = self.attribute_offsets[i]
        lengths = self.attributes[first : first + len(BY_NAME["fork"].ints)]
        self.starts[i] = len(self.ints)
        self.ints.extend([sum(n > 0 for n in lengths), *lengths])
        for k in range(i + 1, i + 1 + sum(lengths)):
            self.inner.append((len(self.ints), self.kernels[k]))
            self.ints.append(0)
            self.kernels[k] = self._number("nop")


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


@functools.cache
def _family(opcode: int) -> Callable:
    family = OPS[opcode].family
    try:
        return importlib.import_module(f"sdbr.backends.cpu.{family}").prepare
    except ModuleNotFoundError as error:
        raise BackendError(f"the family {family!r} has no kernels") from error
