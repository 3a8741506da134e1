"""What is kept of the outputs of function nodes: enough to notice another value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sdbr.base.dtypes import DTYPES
from sdbr.devices.arrays import Array, current, device_of
from sdbr.ops.table import OPS
from sdbr.program._memory import view_of
from sdbr.program._walks import output_counts
from sdbr.trace._node_copies import inner_function

import numpy as np

#: Numbers kept of an array; of larger ones every n-th.
KEPT = 4096


_NOTHING = np.empty(0)


def sample(array):
    """A copy of `array`, or of every n-th of its items, without shape, where they lie."""
    step = -(-array.size // KEPT) if array.size > KEPT else 1
    if isinstance(array, Array):
        with current(device_of(array)):
            return array.ravel()[::step].copy()
    if array.flags.c_contiguous:
        return array.reshape(-1)[::step].copy()
    return np.array(array.flat[::step])


class Applied:
    """One function node that define-by-run has applied.

    Attributes
    ----------
    kind : tuple of type
    label : str
    shapes : list of tuple
    samples : list of ndarray
    """

    __slots__ = ("kind", "label", "samples", "shapes")

    def __init__(self, function, outputs):
        self.kind = kind_of(function)
        self.label = function.label
        # A gradient that is None, inside a gradient, is an output without an array.
        arrays = [_NOTHING if y._data[0] is None else y._data[0] for y in outputs]
        self.shapes = [array.shape for array in arrays]
        self.samples = [sample(array) for array in arrays]


def kind_of(function) -> tuple:
    """The class of a function node, and of the old-style ``Function`` behind it.

    A NumPy scalar of the call is an array in its trace: ``Variable * scalar`` is the product of two
    arrays there, and with a constant in define-by-run.
    """
    kind = type(function)
    if kind.__module__ == "chainer.functions.math.basic_math":
        return _CONSTANT.sub("", kind.__name__), None
    return kind, type(inner_function(function))


_CONSTANT = re.compile("FromConstant|Constant|VarConst|ConstVar|VarVar")


def traced_nodes(trace) -> list | None:
    """The nodes of a trace that plain define-by-run applies one by one; None if it differs there.

    Gradients taken inside the call, and what is recorded whole, stand for other functions.
    """
    found = [node for node in trace.nodes if node.call is None]
    return found if all(node.applied for node in found) else None


def node_rows(lowered) -> dict[int, tuple[Any, int]]:
    """Row of the table of a program -> node and number of its output.

    To be called before the passes; without the outputs that several ops write to.
    """
    writes = output_counts(lowered.builder.instructions)
    return {
        row.index: (node.traced, i)
        for node in lowered.nodes
        for i, row in enumerate(node.ys)
        if writes.get(row.root.index) == 1
    }


def written_by(program, slot: int) -> str:
    """Which op of a program has written a slot last, in words; empty if none has."""
    slots = program.rows["slot"]
    for i in reversed(range(len(program))):
        ins, outs = program.operands_of(i)
        op = OPS[int(program.opcodes[i])]
        rows = [*ins, *outs] if op.updates and op.direct else outs  # it writes into inputs
        if any(program.slots[slots[r]].index == slot for r in rows):
            return f"op {i} of the {program.name} program wrote it [{described(program, i)}]"
    return ""


def described(program, i: int) -> str:
    """One line for an op."""
    return " ".join(program.describe_op(i).split())


class Watch:
    """Keeps samples of what the ops of a running program write.

    Parameters
    ----------
    program : Program
    memory : Memory
    rows : dict
        See `node_rows`.
    closely : bool
        Whether each kernel of a GPU is launched by itself, so that nothing is lost in between: what
        later ops write over cannot be seen once they have run.
    """

    def __init__(self, program, memory, rows: dict, closely: bool = False):
        self.program = program
        self.memory = memory
        self.rows = rows
        self.closely = closely
        #: Op of a GPU -> the ops that its kernel did as well.
        self.together: dict[int, Sequence[int]] = {}
        #: (node, output) -> sample, op that wrote it
        self.samples: dict[tuple[Any, int], tuple[np.ndarray, int]] = {}

    def writer(self, array) -> str:
        """Which op has written an array last that is bound to the memory, in words."""
        for slot in self.program.slots:
            if array is not None and self.memory.array(slot.index) is array:
                return written_by(self.program, slot.index)
        return ""

    def looks_at(self, r: int) -> bool:
        """Whether a row of the program is an output of a function node."""
        return int(self.program.sources[r]) in self.rows

    def __call__(
        self, i: int, rows: Sequence[int] | None = None, together: Sequence[int] = ()
    ) -> None:
        """Op `i` has run.

        Parameters
        ----------
        i : int
        rows : list of int, optional
            Those of its outputs that are still what it wrote; all of them if it is not given.
        together : sequence of int
            Ops that ran as one.
        """
        program = self.program
        if self.closely and len(together) > 1:
            self.together[i] = together
        for r in program.operands_of(i)[1] if rows is None else rows:
            place = self.rows.get(int(program.sources[r]))
            if place is None:
                continue
            row = program.rows[r]
            owner = self.memory.array(program.slots[row["slot"]].index)
            shape, strides = tuple(program.row_shape(r)), tuple(program.row_strides(r))
            view = view_of(owner, shape, strides, int(row["offset"]), False, DTYPES[row["type"]])
            self.samples[place] = (sample(view), i)
