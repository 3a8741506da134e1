"""Normalization in one op with the sum and the relu behind it."""

from __future__ import annotations

from sdbr.ops.table import BY_NAME
from sdbr.program._rows import is_bound
from sdbr.program.buffers import BufferTable, Row, c_strides
from sdbr.program.builder import Instruction

RELU = 1
#: Ops of the forward, with the number of their inputs where nothing is added.
_INPUTS = {"batch_norm": 3, "fixed_batch_norm": 5}
_FORWARD = tuple(_INPUTS)
_GRADIENT = "batch_norm_grad"
#: Where the gradient of the output is among the inputs of the gradient.
_GY = 4


def normalization(
    instructions: list[Instruction], kept: set[int], table: BufferTable
) -> list[Instruction]:
    """Put a sum and relu into the normalization, and the gradient of relu into its gradient.

    Only where nobody else reads what is between the two.
    """
    if not any(i.op.name in _FORWARD or i.op.name == _GRADIENT for i in instructions):
        return instructions
    return _Walk(instructions, kept, table).run()


class _Walk:
    """One walk over a program.

    Attributes
    ----------
    uses : dict of int to int
        Root row -> how often it is read.
    makers : dict of int to (int, Instruction)
        Root row -> its latest writer, with its position.
    last_python : int
        Position of the latest Python op.
    lent : dict of int to int
        Root row -> the latest Python op that may have written it.
    dropped : set of int
        Identities of the instructions that others do now.
    """

    def __init__(self, instructions: list[Instruction], kept: set[int], table: BufferTable):
        self.instructions = instructions
        self.kept = kept
        self.table = table
        self.uses: dict[int, int] = {}
        for instruction in instructions:
            for x in instruction.ins:
                self.uses[x.root.index] = self.uses.get(x.root.index, 0) + 1
        self.makers: dict[int, tuple[int, Instruction]] = {}
        self.last_python = -1
        self.lent: dict[int, int] = {}
        self.dropped: set[int] = set()

    def run(self) -> list[Instruction]:
        for position, instruction in enumerate(self.instructions):
            name = instruction.op.name
            if instruction.op.python:
                self.last_python = position
                self.lent.update((x.root.index, position) for x in instruction.ins)
            if (name == "relu" and self.put_relu(instruction)) or (
                name == "add" and self.put_sum(instruction)
            ):
                continue
            if name == _GRADIENT and len(instruction.ins) == _GY + 1:
                self.put_relu_grad(instruction)
            for y in instruction.outs:
                self.makers[y.root.index] = position, instruction
        return [i for i in self.instructions if id(i) not in self.dropped]

    def maker_of(self, row: Row) -> tuple[int, Instruction | None]:
        """What makes a row that nobody else reads, with its position."""
        root = row.root
        whole = row.is_contiguous and row.nbytes == root.nbytes
        alone = whole and root.slot is None and root.index not in self.kept
        if not alone or self.uses[root.index] != 1:
            return -1, None
        return self.makers.get(root.index, (-1, None))

    def changed_at(self, row: Row) -> int:
        """Where a row has been written last, as far as one can tell."""
        at = max(self.made_at(row), self.lent.get(row.root.index, -1))
        return max(at, self.last_python) if is_bound(row) else at

    def made_at(self, row: Row) -> int:
        """Where an instruction has written a row last."""
        return self.makers.get(row.root.index, (-1, None))[0]

    def put_relu(self, instruction: Instruction) -> bool:
        """A relu into the normalization before it."""
        at, maker = self.maker_of(instruction.ins[0])
        y = instruction.outs[0]
        if maker is None or maker.op.name not in _FORWARD or not y.is_contiguous:
            return False
        maker.ints = (maker.ints[0] | RELU,)
        self.takes_over(maker, instruction, at)
        return True

    def put_sum(self, instruction: Instruction) -> bool:
        """A sum into the normalization that makes one of its terms, where the other is there."""
        y = instruction.outs[0]
        for k, more in enumerate(reversed(instruction.ins)):
            at, maker = self.maker_of(instruction.ins[k])
            if (
                maker is not None
                and maker.op.name in _FORWARD
                and len(maker.ins) == _INPUTS[maker.op.name]
                and not maker.ints[0] & RELU
                and more.is_contiguous
                and y.is_contiguous
                and self.changed_at(more) < at
            ):
                maker.ins = [*maker.ins, _viewed(self.table, more, maker.outs[0].shape)]
                self.takes_over(maker, instruction, at)
                return True
        return False

    def takes_over(self, maker: Instruction, instruction: Instruction, at: int) -> None:
        """The maker, at its place, now gives what the instruction gave."""
        y = instruction.outs[0]
        maker.outs = [_viewed(self.table, y, maker.outs[0].shape), *maker.outs[1:]]
        maker.label += f" + {instruction.label}"
        self.dropped.add(id(instruction))
        self.makers[y.root.index] = at, maker

    def put_relu_grad(self, gradient: Instruction) -> None:
        """The gradient of a relu into that of the normalization before it."""
        gy = gradient.ins[_GY]
        at, maker = self.maker_of(gy)
        if maker is None or maker.op.name != "relu_grad":
            return
        # They are read later than before: nobody may have written them meanwhile.
        sources = [maker.ins[1], maker.ins[0]]
        late = any(self.changed_at(x) > at for x in sources)
        if late or not all(x.is_contiguous for x in sources):
            return
        views = [_viewed(self.table, x, gy.shape) for x in sources]
        gradient.ins = [*gradient.ins[:_GY], *views]
        self.without_output(gradient, sources[1])
        gradient.label += f" + {maker.label}"
        self.dropped.add(id(maker))

    def without_output(self, gradient: Instruction, y: Row) -> None:
        """Let the gradient tell from its other inputs where relu has let something through.

        That is one array less to read and to keep. Only where nothing has changed since the
        forward.
        """
        at, forward = self.makers.get(y.root.index, (-1, None))
        if forward is None or forward.op.name != "batch_norm" or len(forward.ins) > 3:
            return
        x, gamma, beta = forward.ins
        same = zip((x, gamma, *forward.outs[1:]), gradient.ins, strict=False)
        if (
            forward.ints == (RELU,)
            and forward.floats == gradient.floats
            and all(a.root is b.root and a.offset == b.offset for a, b in same)
            and all(self.made_at(r) < at for r in forward.ins)
            and self.last_python < at
        ):
            gradient.op = BY_NAME["batch_norm_relu_grad"]
            gradient.ins = [x, gamma, beta, *gradient.ins[2 : _GY + 1]]


def _viewed(table: BufferTable, x: Row, shape: tuple[int, ...]) -> Row:
    """Contiguous `x` in another shape."""
    return x if x.shape == shape else table.view(x, shape, c_strides(shape, x.dtype.itemsize))
