"""What is kept of the outputs of function nodes: enough to notice another value."""

from __future__ import annotations

import re
from typing import Any

from sdbr.base.dtypes import DTYPES
from sdbr.program._walks import output_counts
from sdbr.trace._node_copies import inner_function

import numpy as np

#: Numbers kept of an array; of larger ones every n-th.
KEPT = 4096


_NOTHING = np.empty(0)


def sample(array: np.ndarray) -> np.ndarray:
    """A copy of `array`, or of every n-th of its items, without shape."""
    step = -(-array.size // KEPT) if array.size > KEPT else 1
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


class Watch:
    """Keeps samples of what the ops of a running program write.

    Parameters
    ----------
    program : Program
    memory : Memory
    rows : dict
        See `node_rows`.
    """

    def __init__(self, program, memory, rows: dict):
        self.program = program
        self.memory = memory
        self.rows = rows
        #: (node, output) -> sample, op that wrote it
        self.samples: dict[tuple[Any, int], tuple[np.ndarray, int]] = {}

    def __call__(self, i: int) -> None:
        program = self.program
        for r in program.operands_of(i)[1]:
            place = self.rows.get(int(program.sources[r]))
            if place is None:
                continue
            row = program.rows[r]
            owner = self.memory.array(program.slots[row["slot"]].index)
            view = np.ndarray(
                program.row_shape(r),
                DTYPES[row["type"]],
                owner,
                int(row["offset"]),
                program.row_strides(r),
            )
            self.samples[place] = (sample(view), i)
