"""Bias and activation in one op with the product before them."""

from __future__ import annotations

from sdbr.ops.table import BY_NAME
from sdbr.program._walks import read_counts
from sdbr.program.buffers import BufferTable, Row
from sdbr.program.builder import Instruction


def fusion(
    instructions: list[Instruction], kept: set[int], table: BufferTable | None = None
) -> list[Instruction]:
    """Put bias and activation behind the matrix product.

    ``linear`` then relu, sigmoid or tanh becomes one ``linear``; a convolution then relu one
    convolution; ``gemm`` then the gradient of such an activation becomes ``gemm_mask``. Only where
    nobody else reads the product.
    """
    return _Fusion(instructions, kept, table).run()


class _Fusion:
    """One walk over a program.

    Attributes
    ----------
    uses : dict of int to int
        Root row -> how often it is read.
    makers : dict of int to Instruction
        Root row -> its latest writer.
    written_at : dict of int to int
        Root row -> position of its latest writer.
    """

    def __init__(self, instructions: list[Instruction], kept: set[int], table: BufferTable | None):
        self.instructions = instructions
        self.kept = kept
        self.table = table
        self.uses: dict[int, int] = read_counts(instructions)
        self.makers: dict[int, Instruction] = {}
        self.written_at: dict[int, int] = {}

    def run(self) -> list[Instruction]:
        result = []
        for position, instruction in enumerate(self.instructions):
            if self.joins(instruction):
                continue
            result.append(instruction)
            for y in instruction.outs:
                self.makers[y.root.index] = instruction
                self.written_at[y.root.index] = position
        return result

    def joins(self, instruction: Instruction) -> bool:
        """Let the op before an instruction do it, where that can be."""
        if instruction.op.activation:
            maker = self.sole_maker(instruction.ins[0])
            return maker is not None and (
                self.activate(maker, instruction) or self.activate_images(maker, instruction)
            )
        if instruction.op.activation_grad:
            maker = self.sole_maker(instruction.ins[1])
            return maker is not None and self.mask(maker, instruction)
        return False

    def sole_maker(self, row: Row) -> Instruction | None:
        """What makes a row that nobody else reads."""
        root = row.root
        if root.slot is not None or root.index in self.kept or self.uses.get(root.index) != 1:
            return None
        return self.makers.get(root.index)

    def activate(self, maker: Instruction, instruction: Instruction) -> bool:
        """``linear`` with an activation behind it."""
        y = instruction.outs[0]
        if not (
            maker.op.name == "linear"
            and maker.ints == (0,)
            and _same_place(instruction.ins[0], y)
            and y.shape == maker.outs[0].shape
        ):
            return False
        maker.ints = (instruction.op.activation,)
        self.takes_over(maker, instruction, [y])
        return True

    def activate_images(self, maker: Instruction, instruction: Instruction) -> bool:
        """A convolution with a relu behind it."""
        if not _takes_relu(maker, instruction, self.table):
            return False
        y, out = instruction.outs[0], maker.outs[0]
        maker.ints = (*maker.ints[:-1], instruction.op.activation)
        viewed = self.table.view(y, out.shape, out.strides)
        self.takes_over(maker, instruction, [viewed, *maker.outs[1:]])
        return True

    def mask(self, maker: Instruction, instruction: Instruction) -> bool:
        """``gemm`` with the gradient of an activation behind it."""
        (y, gy), out = instruction.ins, instruction.outs[0]
        if not (
            maker.op.name == "gemm"
            and maker.ints == (0, 0, 0)
            and y.is_contiguous
            and _same_place(gy, out)
            and y.shape == maker.outs[0].shape
            and out.shape == maker.outs[0].shape
        ):
            return False
        # The mask must exist when the product runs: it does, it comes from the forward.
        if self.written_at.get(y.root.index, -1) >= self.written_at[maker.outs[0].root.index]:
            return False
        maker.op = BY_NAME["gemm_mask"]
        maker.ints = (instruction.op.activation_grad,)
        maker.ins = [*maker.ins, y]
        self.takes_over(maker, instruction, [out])
        return True

    def takes_over(self, maker: Instruction, instruction: Instruction, outs: list[Row]) -> None:
        """The maker now gives what the instruction gave."""
        root = instruction.outs[0].root.index
        self.written_at[root] = self.written_at[maker.outs[0].root.index]
        maker.outs = outs
        maker.label += f" + {instruction.label}"
        self.makers[root] = maker


def _takes_relu(maker: Instruction, relu: Instruction, table: BufferTable | None) -> bool:
    """Whether a convolution can write what a relu makes of its output."""
    return (
        table is not None
        and relu.op.name == "relu"
        and maker.op.family == "convolution"
        and "activation" in maker.op.ints
        and maker.ints[-1] == 0
        and relu.ins[0].root is maker.outs[0].root
        and maker.outs[0].is_contiguous
        and _same_place(relu.ins[0], relu.outs[0])
    )


def _same_place(x: Row, y: Row) -> bool:
    return x.is_contiguous and y.is_contiguous and x.nbytes == y.nbytes == x.root.nbytes
