"""Bias and activation in one op with the product before them."""

from __future__ import annotations

from sdbr.ops.table import BY_NAME
from sdbr.program.buffers import BufferTable, Row
from sdbr.program.builder import Instruction

_ACTIVATIONS = {"relu": 1, "sigmoid": 2, "tanh": 3}
_ACTIVATION_GRADS = {"relu_grad": 1, "sigmoid_grad": 2, "tanh_grad": 3}


def fusion(
    instructions: list[Instruction], kept: set[int], table: BufferTable | None = None
) -> list[Instruction]:
    """Put bias and activation behind the matrix product.

    ``linear`` then relu, sigmoid or tanh becomes one ``linear``; a convolution then relu one
    convolution; ``gemm`` then the gradient of such an activation becomes ``gemm_mask``. Only where
    nobody else reads the product.
    """
    uses: dict[int, int] = {}
    for instruction in instructions:
        for x in instruction.ins:
            uses[x.root.index] = uses.get(x.root.index, 0) + 1
    makers: dict[int, Instruction] = {}
    written_at: dict[int, int] = {}  # root row -> position of its latest writer
    dropped: set[int] = set()
    for position, instruction in enumerate(instructions):
        name = instruction.op.name
        if name in _ACTIVATIONS:
            maker = _sole_maker(instruction.ins[0], makers, uses, kept)
            if maker is not None and maker.op.name == "linear" and maker.ints == (0,):
                y = instruction.outs[0]
                if _same_place(instruction.ins[0], y) and y.shape == maker.outs[0].shape:
                    maker.ints = (_ACTIVATIONS[name],)
                    written_at[y.root.index] = written_at[maker.outs[0].root.index]
                    maker.outs = [y]
                    maker.label += f" + {instruction.label}"
                    dropped.add(id(instruction))
                    makers[y.root.index] = maker
                    continue
            if maker is not None and _takes_relu(maker, instruction, table):
                y, out = instruction.outs[0], maker.outs[0]
                maker.ints = (*maker.ints[:-1], 1)
                written_at[y.root.index] = written_at[out.root.index]
                maker.outs = [table.view(y, out.shape, out.strides), *maker.outs[1:]]
                maker.label += f" + {instruction.label}"
                dropped.add(id(instruction))
                makers[y.root.index] = maker
                continue
        elif name in _ACTIVATION_GRADS:
            maker = _sole_maker(instruction.ins[1], makers, uses, kept)
            if (
                maker is not None
                and maker.op.name == "gemm"
                and maker.ints == (0, 0, 0)
                and instruction.ins[0].is_contiguous
                and _same_place(instruction.ins[1], instruction.outs[0])
                and instruction.ins[0].shape == maker.outs[0].shape
                and instruction.outs[0].shape == maker.outs[0].shape
            ):
                # The mask must exist when the product runs: it does, it comes from the forward.
                mask = instruction.ins[0].root.index
                if written_at.get(mask, -1) < written_at[maker.outs[0].root.index]:
                    maker.op = BY_NAME["gemm_mask"]
                    maker.ints = (_ACTIVATION_GRADS[name],)
                    maker.ins = [*maker.ins, instruction.ins[0]]
                    written_at[instruction.outs[0].root.index] = written_at[
                        maker.outs[0].root.index
                    ]
                    maker.outs = [instruction.outs[0]]
                    maker.label += f" + {instruction.label}"
                    dropped.add(id(instruction))
                    makers[instruction.outs[0].root.index] = maker
                    continue
        for y in instruction.outs:
            makers[y.root.index] = instruction
            written_at[y.root.index] = position
    return [i for i in instructions if id(i) not in dropped]


def _takes_relu(maker: Instruction, relu: Instruction, table: BufferTable | None) -> bool:
    """Whether a convolution can write what a relu makes of its output."""
    return (
        table is not None
        and relu.op.name == "relu"
        and maker.op.name in ("convolution", "convolution_grad_x")
        and maker.ints[-1] == 0
        and relu.ins[0].root is maker.outs[0].root
        and maker.outs[0].is_contiguous
        and _same_place(relu.ins[0], relu.outs[0])
    )


def _sole_maker(row: Row, makers, uses, kept) -> Instruction | None:
    root = row.root
    if root.slot is not None or root.index in kept or uses.get(root.index) != 1:
        return None
    return makers.get(root.index)


def _same_place(x: Row, y: Row) -> bool:
    return x.is_contiguous and y.is_contiguous and x.nbytes == y.nbytes == x.root.nbytes
