"""The NumPy executor: the reference that every other backend is compared with."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from sdbr._executor import observer
from sdbr.base.dtypes import DTYPES
from sdbr.base.failures import annotate
from sdbr.ops.table import OPS
from sdbr.program.buffers import FAILED
from sdbr.program.program import Program

import numpy as np


class NumpyExecutable:
    """A program on one memory, run op by op with NumPy.

    Parameters
    ----------
    program : Program
        Checked as a whole before anything runs.
    memory : sdbr.program._memory.Memory
        Arrays by slot, control block, state of Python ops.

    Attributes
    ----------
    native_ops, python_ops : int
        Number of ops of each kind.

    Raises
    ------
    ValidationError
        If the flat arrays are not a program.
    """

    def __init__(self, program: Program, memory) -> None:
        program.validate()
        self.watch: Callable[[int], None] | None = None
        self.program = program
        self.memory = memory
        self.python_ops = program.python_ops
        self.native_ops = len(program) - self.python_ops
        self._ops = [
            (OPS[code], *program.operands_of(i), *program.attributes_of(i))
            for i, code in enumerate(program.opcodes.tolist())
        ]
        # (op, index in its floats, control slot)
        starts = program.attribute_offsets[:, 1]
        self._control = []
        for position, slot in program.control_references.tolist():
            i = int(np.searchsorted(starts, position, side="right")) - 1
            self._control.append((i, position - int(starts[i]), slot))
        self._layout = [
            (
                program.slots[row["slot"]].index,
                program.row_shape(r),
                DTYPES[row["type"]],
                int(row["offset"]),
                program.row_strides(r),
            )
            for r, row in enumerate(program.rows)
        ]

    def run(self) -> None:
        """Run the whole program on what is bound now.

        Raises
        ------
        IndexError
            For a label that is out of range; nothing of that op was written.
        Exception
            Whatever a Python op raises. All errors carry a note that names the op.
        """
        if observer() is not None and self.watch is None:
            self._run_observed()
            return
        for i in self.step():
            if self.watch is not None:
                self.watch(i)

    def _run_observed(self) -> None:
        watching = observer()
        start = last = time.perf_counter()
        seconds = np.zeros(len(self._ops))
        for i in self.step():
            now = time.perf_counter()
            seconds[i], last = now - last, now
        watching(self, start, seconds, True)

    def step(self, first: int = 0) -> Iterator[int]:
        """Run op by op, from `first` on; yields the index of the op that has just run."""
        self._read_control()
        views: list[np.ndarray | None] = [None] * len(self._layout)
        for i in range(first, len(self._ops)):
            self._run_op(i, views)
            yield i

    def _read_control(self) -> None:
        """Bring floats up to date with the control block; code of Python may write there."""
        for i, j, slot in self._control:
            self._ops[i][4][j] = self.memory.get_control(slot)

    def _run_op(self, i: int, views: list) -> None:
        op, in_rows, out_rows, ints, floats = self._ops[i]
        try:
            ins = [self._view(r, views) for r in in_rows]
            outs = [self._view(r, views) for r in out_rows]
            if op.python:
                self.program.objects[ints[0]](self.memory, ins, outs)
                self._read_control()
                return
            op.compute(ins, outs, op.attributes(ints, floats))
        except Exception as error:
            self.memory.state[FAILED] = i
            explain_error(error, self.program, i)
            raise

    def _view(self, r: int, views: list) -> np.ndarray:
        # Views last for one run only: whoever owns an array must be able to see that
        # nobody else holds it.
        view = views[r]
        if view is None:
            slot, shape, dtype, offset, strides = self._layout[r]
            owner = self.memory.array(slot)
            if owner is None:
                raise ValueError(f"slot {slot} is not bound to an array")
            view = views[r] = np.ndarray(shape, dtype, owner, offset, strides)
        return view


def explain_error(error: BaseException, program: Program, i: int) -> None:
    """Add the op, its index, shapes and the user line to an error; its type stays."""
    annotate(error, program.place_of(i))
