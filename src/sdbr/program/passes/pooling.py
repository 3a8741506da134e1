"""The gradient of a relu before a maximum pooling, taken where there are fewer elements."""

from __future__ import annotations

from sdbr.ops.table import BY_NAME
from sdbr.program._rows import readers, whole, writer_counts
from sdbr.program.buffers import BufferTable, Row
from sdbr.program.builder import Instruction


def pooling(
    instructions: list[Instruction], kept: set[int], table: BufferTable
) -> list[Instruction]:
    """Let ``relu_grad`` look at the maxima instead of at all that they were chosen from.

    What a window hands back goes to its largest element, which is positive where the maximum is.
    So the gradient is masked before it is spread, and the output of the relu is not read again:
    the largest activation of a network of convolutions may die in the forward.
    """
    pools = {i.outs[1].root.index: i for i in instructions if i.op.name == "max_pooling_index"}
    if not pools:
        return instructions
    reads, writers = readers(instructions), writer_counts(instructions)
    made = {i.outs[0].root.index: i for i in instructions if i.op.name == "max_pooling_grad"}

    def alone(row: Row) -> bool:
        """Whether one instruction writes all of it, and nothing outside of the program sees it."""
        root = row.root
        inside = root.slot is None and root.index not in kept
        return inside and whole(row) and writers.get(root.index) == 1

    first: dict[int, Instruction] = {}
    dropped: set[int] = set()
    for relu in instructions:
        if relu.op.name != "relu_grad":
            continue
        y, spread = relu.ins
        grad = made.get(spread.root.index)
        pool = None if grad is None else pools.get(grad.ins[1].root.index)
        if pool is None or pool.ins[0].root is not y.root or len(reads[spread.root.index]) != 1:
            continue
        if not (alone(spread) and alone(relu.outs[0])):
            continue
        # Nobody may write to what the mask is taken from, on either side.
        if not (whole(y) and whole(pool.ins[0]) and writers.get(y.root.index) == 1):
            continue
        maxima = pool.outs[0]
        if not (whole(maxima) and writers.get(maxima.root.index) == 1):
            continue
        gy = grad.ins[0]
        masked = table.root(gy.shape, gy.dtype, None, relu.label)
        origin = relu.label, relu.line, relu.link
        masking = Instruction(BY_NAME["relu_grad"], [maxima, gy], [masked], (), (), *origin)
        masking.flushes = relu.flushes
        first[id(grad)] = masking
        place = grad.outs[0]
        grad.ins = [masked, *grad.ins[1:]]
        grad.outs = [table.view(relu.outs[0], place.shape, place.strides)]
        dropped.add(id(relu))
    result = []
    for instruction in instructions:
        if id(instruction) in first:
            result.append(first[id(instruction)])
        if id(instruction) not in dropped:
            result.append(instruction)
    return result
