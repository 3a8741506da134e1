"""Normalization in one op with the sum and the relu behind it."""

from __future__ import annotations

from sdbr.ops.table import BY_NAME
from sdbr.program.buffers import BufferTable, Row, c_strides
from sdbr.program.builder import Instruction
from sdbr.program.passes.rows import is_bound

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
    uses: dict[int, int] = {}
    for instruction in instructions:
        for x in instruction.ins:
            uses[x.root.index] = uses.get(x.root.index, 0) + 1
    makers: dict[int, tuple[int, Instruction]] = {}  # root row -> its latest writer
    dropped: set[int] = set()

    def maker_of(row: Row) -> tuple[int, Instruction | None]:
        root = row.root
        whole = row.is_contiguous and row.nbytes == root.nbytes
        if not whole or root.slot is not None or root.index in kept or uses[root.index] != 1:
            return -1, None
        return makers.get(root.index, (-1, None))

    last_python = -1
    lent: dict[int, int] = {}  # root row -> the latest Python op that may have written it

    def changed_at(row: Row) -> int:
        """Where a row has been written last, as far as one can tell."""
        at = max(makers.get(row.root.index, (-1, None))[0], lent.get(row.root.index, -1))
        return max(at, last_python) if is_bound(row) else at

    for position, instruction in enumerate(instructions):
        name = instruction.op.name
        if name == "python":
            last_python = position
            lent.update((x.root.index, position) for x in instruction.ins)
        if name == "relu":
            at, maker = maker_of(instruction.ins[0])
            y = instruction.outs[0]
            if maker is not None and maker.op.name in _FORWARD and y.is_contiguous:
                maker.ints = (maker.ints[0] | RELU,)
                maker.outs = [_viewed(table, y, maker.outs[0].shape), *maker.outs[1:]]
                maker.label += f" + {instruction.label}"
                dropped.add(id(instruction))
                makers[y.root.index] = at, maker
                continue
        elif name == "add":
            maker, more = _sum_of(instruction, maker_of, changed_at)
            if maker is not None:
                y, shape = instruction.outs[0], maker.outs[0].shape
                at = makers[maker.outs[0].root.index][0]
                maker.ins = [*maker.ins, _viewed(table, more, shape)]
                maker.outs = [_viewed(table, y, shape), *maker.outs[1:]]
                maker.label += f" + {instruction.label}"
                dropped.add(id(instruction))
                makers[y.root.index] = at, maker
                continue
        elif name == _GRADIENT and len(instruction.ins) == _GY + 1:
            gy = instruction.ins[_GY]
            at, maker = maker_of(gy)
            if maker is not None and maker.op.name == "relu_grad":
                # They are read later than before: nobody may have written them meanwhile.
                sources = [maker.ins[1], maker.ins[0]]
                late = any(changed_at(x) > at for x in sources)
                if not late and all(x.is_contiguous for x in sources):
                    views = [_viewed(table, x, gy.shape) for x in sources]
                    instruction.ins = [*instruction.ins[:_GY], *views]
                    _without_output(instruction, sources[1], makers, last_python)
                    instruction.label += f" + {maker.label}"
                    dropped.add(id(maker))
        for y in instruction.outs:
            makers[y.root.index] = position, instruction
    return [i for i in instructions if id(i) not in dropped]


def _sum_of(
    instruction: Instruction, maker_of, changed_at
) -> tuple[Instruction | None, Row | None]:
    """The normalization whose result is added to something that is there before, and that."""
    y = instruction.outs[0]
    for k, more in enumerate(reversed(instruction.ins)):
        at, maker = maker_of(instruction.ins[k])
        if (
            maker is not None
            and maker.op.name in _FORWARD
            and len(maker.ins) == _INPUTS[maker.op.name]
            and not maker.ints[0] & RELU
            and more.is_contiguous
            and y.is_contiguous
            and changed_at(more) < at
        ):
            return maker, more
    return None, None


def _without_output(gradient: Instruction, y: Row, makers, last_python: int) -> None:
    """Let the gradient tell from its other inputs where relu has let something through.

    That is one array less to read and to keep. Only where nothing has changed since the forward.
    """
    at, forward = makers.get(y.root.index, (-1, None))
    if forward is None or forward.op.name != "batch_norm" or len(forward.ins) > 3:
        return
    x, gamma, beta = forward.ins
    same = zip((x, gamma, *forward.outs[1:]), gradient.ins, strict=False)
    if (
        forward.ints == (RELU,)
        and forward.floats == gradient.floats
        and all(a.root is b.root and a.offset == b.offset for a, b in same)
        and all(makers.get(r.root.index, (-1, None))[0] < at for r in forward.ins)
        and last_python < at
    ):
        gradient.op = BY_NAME["batch_norm_relu_grad"]
        gradient.ins = [x, gamma, beta, *gradient.ins[2 : _GY + 1]]


def _viewed(table: BufferTable, x: Row, shape: tuple[int, ...]) -> Row:
    """Contiguous `x` in another shape."""
    return x if x.shape == shape else table.view(x, shape, c_strides(shape, x.dtype.itemsize))
