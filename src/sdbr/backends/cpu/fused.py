"""The op that is several elementwise ops: registers, block length, strided inputs.

Integers of the kernel: elements, elements of a block, operands, buffers, loads, steps; per load
[operand, buffer, 0 when all blocks are the same, ndim, shape, strides in bytes]; per step [row
function, a, b, c, output, index of its first float]. Registers number the operands, then the
buffers: temporaries, then one for each input that is not C-contiguous and is loaded into it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, suffix
from sdbr.backends.cpu.prepare.space import KernelCall, describe, product
from sdbr.base.errors import BackendError
from sdbr.base.limits import FUSED_BYTES
from sdbr.ops.fused import MAX_AXES, decode, load_axes
from sdbr.program.buffers import is_c_contiguous

#: Elements of a block at most.
LONGEST_BLOCK = 1024


@functools.cache
def _codes() -> dict[str, int]:
    from sdbr.backends.cpu._kernels import step_codes

    return step_codes()


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> KernelCall:
    """Kernel and integers of a fused op.

    Raises
    ------
    BackendError
        For outputs with gaps, inputs that too many axes describe, or a step without a kernel.
    """
    operands = [*ins, *outs]
    dtype = suffix(outs[0])
    itemsize = 4 if dtype == "f4" else 8
    n = product(outs[0][1])
    if not all(is_c_contiguous(shape, strides, itemsize) for _, shape, strides in outs):
        raise BackendError(f"op {name!r} writes C-contiguous operands; got {describe(outs)}")
    steps = list(decode(ints, _Zeros()))
    top = max([len(operands) - 1, *(step.out for step in steps)])
    registers = {r: r for r in range(top + 1)}
    strided: list[tuple[int, list[tuple[int, int]]]] = []
    for r, (_, shape, strides) in enumerate(ins):
        if not is_c_contiguous(shape, strides, itemsize):
            axes = load_axes(shape, strides)
            if len(axes) > MAX_AXES:
                raise BackendError(f"op {name!r} loads at most {MAX_AXES} axes; got {len(axes)}")
            top += 1
            registers[r] = top
            strided.append((r, axes))
    n_buffers = top + 1 - len(operands)
    lanes = 64 // itemsize
    block = min(LONGEST_BLOCK, FUSED_BYTES // itemsize // max(n_buffers, 1)) // lanes * lanes
    block, same = _common_block(block, [axes for _, axes in strided])
    loads: list[int] = []
    for (r, axes), period in zip(strided, same, strict=True):
        axes = axes or [(n, 0)]
        loads += [r, registers[r] - len(operands), int(not period), len(axes)]
        loads += [length for length, _ in axes] + [step for _, step in axes]
    encoded = []
    for step in steps:
        code = _codes().get(step.op.name)
        if code is None:
            raise BackendError(f"op {name!r} has no step {step.op.name!r}")
        reads = [registers[r] for r in step.ins]
        encoded += [code, *reads, *[0] * (3 - len(reads)), registers[step.out], step.at]
    head = [n, block, len(operands), n_buffers, len(strided), len(steps)]
    return f"fused_{dtype}", [*head, *loads, *encoded]


def _common_block(block: int, loads: list[list[tuple[int, int]]]) -> tuple[int, list[bool]]:
    """A block length at most `block`, and for each load whether all blocks of it are the same."""
    unit = 1
    same = []
    for axes in loads:
        # What repeats along its first axis is the same in blocks of whole repetitions.
        period = math.prod(length for length, _ in axes[1:]) if axes and axes[0][1] == 0 else 0
        together = math.lcm(unit, period) if period else block + 1
        fits = not axes or together <= block
        if axes and fits:
            unit = together
        same.append(fits)
    return block // unit * unit, same


class _Zeros:
    """Stands for the float attributes, which are not known here."""

    def __getitem__(self, part: slice) -> list[float]:
        return [0.0] * (part.stop - part.start)
