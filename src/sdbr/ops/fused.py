"""Several elementwise ops in one pass over memory: the attributes are a small program over registers.

``steps`` holds for each step the opcode of an elementwise op, the registers it reads, and the
register it writes; ``numbers`` holds the float attributes of all steps, one after another.
Registers are numbered: the inputs of the op, its outputs, then temporaries that live in a block of
scratch memory. An output is written once, a temporary as often as it is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sdbr.base.limits import FUSED_AXES
from sdbr.ops.op import Layout, Op, Ops
from sdbr.ops.single import SINGLE

import numpy as np

#: Limits of the kernel: operands and temporaries of one op, axes of a strided input.
MAX_OPERANDS = 16
MAX_TEMPORARIES = 8
MAX_AXES = FUSED_AXES


class Step(NamedTuple):
    """One step, decoded.

    Attributes
    ----------
    op : Op
    ins : tuple of int
        Registers that it reads.
    out : int
        Register that it writes.
    numbers : tuple
        Its float attributes.
    at : int
        Where these begin in ``numbers`` of the fused op.
    """

    op: Op
    ins: tuple[int, ...]
    out: int
    numbers: tuple
    at: int


def encode(steps: Sequence[Step]) -> tuple[tuple[int, ...], tuple]:
    """``steps`` and ``numbers`` of the op."""
    ints: list[int] = []
    numbers: list = []
    for step in steps:
        ints += (step.op.opcode, *step.ins, step.out)
        numbers += step.numbers
    return tuple(ints), tuple(numbers)


def decode(ints: Sequence[int], numbers: Sequence) -> Iterator[Step]:
    """The steps of the op, from its attributes."""
    at = place = 0
    while at < len(ints):
        op = SINGLE[ints[at]]
        end = at + 1 + len(op.inputs)
        more = place + len(op.floats)
        yield Step(op, tuple(ints[at + 1 : end]), ints[end], tuple(numbers[place:more]), place)
        at, place = end + 1, more


def problem(n_in: int, n_out: int, ints: Sequence[int], numbers: Sequence) -> str:
    """What is wrong with the attributes of an op with so many operands; empty when nothing is."""
    if not 1 <= n_out <= n_in + n_out <= MAX_OPERANDS:
        return (
            f"{n_in} inputs and {n_out} outputs; at most {MAX_OPERANDS} operands, 1 output or more"
        )
    steps = _steps_that_exist(ints)
    if steps is None:
        return "the steps are cut short, or one is not an elementwise op"
    if sum(len(op.floats) for op, _, _ in steps) != len(numbers):
        return f"{len(numbers)} float attributes do not fit the steps"
    written = set(range(n_in))
    for op, ins, out in steps:
        if not written.issuperset(ins):
            return f"{op.name} reads a register that nothing has written"
        if not n_in <= out < n_in + n_out + MAX_TEMPORARIES:
            return f"{op.name} writes register {out}"
        if out in written and out < n_in + n_out:
            return f"output {out - n_in} is written twice"
        written.add(out)
    if not written.issuperset(range(n_in + n_out)):
        return "an output is never written"
    return ""


def _steps_that_exist(ints: Sequence[int]) -> list[tuple[Op, Sequence[int], int]] | None:
    found = []
    at = 0
    while at < len(ints):
        if not 0 <= ints[at] < len(SINGLE) or not SINGLE[ints[at]].step:
            return None
        op = SINGLE[ints[at]]
        end = at + 1 + len(op.inputs)
        if end >= len(ints):
            return None
        found.append((op, ints[at + 1 : end], ints[end]))
        at = end + 1
    return found


def describe(ins: Sequence[int], outs: Sequence[int], ints, numbers) -> list[str]:
    """The steps as text; operands by their place in the buffer table, temporaries ``t0``, ``t1``."""
    operands = [f"%{place}" for place in (*ins, *outs)]

    def name(register: int) -> str:
        return operands[register] if register < len(operands) else f"t{register - len(operands)}"

    lines = []
    for step in decode(ints, numbers):
        parts = [name(r) for r in step.ins]
        parts += [f"{n}={v:g}" for n, v in zip(step.op.floats, step.numbers, strict=True)]
        lines.append(f"{name(step.out)} = {step.op.name}({', '.join(parts)})")
    return lines


def memory_sharing(n_in: int, n_out: int, ints, numbers) -> list[tuple[int, int]]:
    """Pairs (output, input) that may lie in the same memory, element for element.

    An input is read for the last time before, or in the step in which, the output is written.
    """
    last_read: dict[int, int] = {}
    made: dict[int, int] = {}
    for i, step in enumerate(decode(ints, numbers)):
        for r in step.ins:
            if r < n_in:
                last_read[r] = i
        if step.out < n_in + n_out:
            made[step.out - n_in] = i
    return [
        (o, r) for o, i in sorted(made.items()) for r in range(n_in) if last_read.get(r, -1) <= i
    ]


def load_axes(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """The fewest axes (length, stride) that walk over an operand in C order; [] for one element."""
    axes: list[tuple[int, int]] = []
    for length, stride in zip(shape, strides, strict=True):
        if length == 1:
            continue
        if axes and axes[-1][1] == length * stride:
            axes[-1] = (axes[-1][0] * length, stride)
        else:
            axes.append((length, stride))
    return [] if all(stride == 0 for _, stride in axes) else axes


def _rule(
    ins: Sequence[Layout], outs: Sequence[Layout], ints: Sequence[int], floats: Sequence
) -> str:
    """Steps that fit the operands, which have as many elements as each other."""
    if len({math.prod(shape) for _, shape in (*ins, *outs)}) > 1:
        return "operands of one size"
    return problem(len(ins), len(outs), ints, floats)


define = Ops()


def _flops(ins: Sequence[Layout], outs: Sequence[Layout], ints: Sequence[int]) -> int:
    """One for each element in each step that makes a number."""
    steps, at = 0, 0
    while at < len(ints):
        op = SINGLE[ints[at]]
        steps += not op.moves
        at += 2 + len(op.inputs)
    return steps * math.prod(outs[0][1])


@define(
    "fused",
    "x:T*",
    "y:T*",
    "the ops that `steps` encodes (ops/fused.py), block by block; all operands have as many "
    "elements as the first output, in C order; outputs C-contiguous",
    ints="steps*",
    floats="numbers*",
    direct=True,
    rule=_rule,
    sharing=memory_sharing,
    spelled=describe,
    flops=_flops,
    cut="elements",
)
def fused(ins, outs, attributes) -> None:
    """Run the steps on whole arrays; what a step writes is rounded to the dtype of the op."""
    # Of one axis, for NumPy 1 computes with scalars in float64; inputs stay as they are given.
    registers = {i: np.reshape(x, -1) for i, x in enumerate(ins)}
    size, dtype = outs[0].size, outs[0].dtype
    for step in decode(attributes["steps"], attributes["numbers"]):
        named = dict(zip(step.op.floats, step.numbers, strict=True))
        y = np.empty(size, dtype)
        y[...] = step.op.formula(*(registers[r] for r in step.ins), **named)
        registers[step.out] = y
    for i, out in enumerate(outs):
        out[...] = registers[len(ins) + i].reshape(out.shape)


OPS = define.ops
