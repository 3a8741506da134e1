"""Activations that the backward computes again instead of keeping them.

What a cheap op of the forward makes, from what is kept anyway, need not be kept for the backward: a
copy of the op, put in front of its first reader in the backward, makes it again. There are two
levels. By default only arithmetic with a number is repeated, where all readers are elementwise ops:
inside of one fused op that costs less than reading the array. With ``memory='low'`` everything
elementwise, data movement, normalization with known moments and multiplication with a dropout mask
is repeated, up to `DEEPEST` ops in a row. Nothing is drawn again, and every number stays the same:
the ops are the same, and so is what they read. A backward that runs later than its forward could
find memory of the caller (parameters, running statistics) changed: small arrays are copied in the
forward, and what is made of large ones is kept. A network that would keep more than `most_held` of
its `Machine` gets the second level without being asked.
"""

from __future__ import annotations

from sdbr.ops.table import BY_NAME
from sdbr.program._rows import Replacement, readers, whole, writer_counts, written
from sdbr.program.buffers import BOUND, CONSTANT, BufferTable, Row
from sdbr.program.builder import Instruction

FREE, LOW = "free", "low"

#: Activation of `fixed_batch_norm` that makes it round as `batch_norm`.
AS_BATCH_NORM = 2

#: Ops that follow one another from what is kept to what is made again; more would all be alive at
#: the same time.
DEEPEST = {FREE: 1, LOW: 8}

#: So many times larger than an array of the caller is what is made again of a copy of it.
TIMES = 8


class Recipes:
    """Which roots the backward makes again, and how.

    Parameters
    ----------
    forward : list of Instruction
    backward : list of Instruction
        The one that reads most of the forward.
    table : BufferTable
    level : str
        `FREE` or `LOW`.
    together : bool
        Whether both are one program: what the caller has bound cannot change in between.

    Attributes
    ----------
    makers : dict of int to Instruction
        Root row index -> the op that makes it again; its inputs and output are rows of the forward.
    """

    def __init__(
        self,
        forward: list[Instruction],
        backward: list[Instruction],
        table: BufferTable,
        level: str,
        together: bool,
    ):
        self.table = table
        self.level = level
        self.together = together
        self.makers: dict[int, Instruction] = {}
        # Parameters change when everything has been read.
        update = next((i for i, x in enumerate(backward) if x.op.updates), None)
        before_update = forward + backward[:update]
        self._writers = writer_counts(before_update)
        # Code of the user may write what it reads; other ops write their outputs alone.
        self._last_write = {
            index: i
            for i, instruction in enumerate(before_update)
            for index in (
                written(instruction)
                if instruction.op.python
                else [y.root.index for y in instruction.outs]
            )
        }
        self._backward = backward
        self._readers = readers(backward)
        self._made: dict[int, Instruction] = {}
        self._made_at: dict[int, int] = {}
        for i, instruction in enumerate(forward):
            for y in instruction.outs:
                self._made[y.root.index] = instruction
                self._made_at[y.root.index] = i
        self._depths: dict[int, int | None] = {}
        needed: dict[int, Row] = {}
        for instruction in backward:
            for x in instruction.ins:
                if x.root.slot is None and x.root.index in self._made:
                    needed.setdefault(x.root.index, x.root)
        self._kept = set(needed)
        dropped = []
        # In the order in which they were made: what one of them reads is decided before it is.
        for instruction in forward:
            for y in instruction.outs:
                root = needed.pop(y.root.index, None)
                if root is not None and self._depth(root, top=True) is not None:
                    dropped.append(root.index)
        wanted = dropped
        while wanted:
            index = wanted.pop()
            if index not in self.makers:
                again = self.makers[index] = self._again(self._made[index], index)
                wanted += [
                    x.root.index
                    for x in again.ins
                    if x.root.slot is None and self._depths.get(x.root.index)
                ]
        del self._writers, self._last_write, self._backward, self._readers
        del self._made, self._made_at, self._depths, self._kept

    def _depth(self, root: Row, top: bool = False) -> int | None:
        """How many ops in a row make a root again; 0 when it is there, None when that cannot be."""
        index = root.index
        if index in self._depths:
            return self._depths[index]
        if index in self._kept and not top:
            return 0
        self._depths[index] = None
        maker = self._made.get(index)
        again = None if maker is None else self._again(maker, index)
        depth: int | None = None
        if again is not None and self._worth(index):
            depths = [self._source(x, root) for x in again.ins]
            if None not in depths:
                depth = 1 + max(depths, default=0)
                if depth > DEEPEST[self.level]:
                    # Far from all that is kept: one more that is, for what follows.
                    depth = 0 if self.level == LOW else None
        if depth is None and index in self._kept:
            depth = 0
        self._depths[index] = depth
        return depth or None if top else depth

    def _source(self, x: Row, result: Row) -> int | None:
        """`_depth` of what an op reads to make `result` again."""
        if self._last_write.get(x.root.index, -1) > self._made_at[result.index]:
            return None
        slot = x.root.slot
        if slot is None:
            return self._depth(x.root)
        if slot.kind == CONSTANT:
            return 0 if self.level == LOW or self.table.is_private(slot) else None
        fixed = self.level == LOW and not self._writers.get(x.root.index)
        fixed = fixed and (self.together or TIMES * x.root.nbytes <= result.nbytes)
        return 0 if fixed and slot.kind == BOUND else None

    def _worth(self, index: int) -> bool:
        if self.level == LOW:
            return True
        return all(self._backward[i].op.step for i in self._readers.get(index, ()))

    def _again(self, maker: Instruction, index: int) -> Instruction | None:
        """The op that makes a root again, or None when it is not cheap."""
        if self._writers[index] != 1:
            return None
        name, ins, ints, floats = maker.op.name, maker.ins, maker.ints, maker.floats
        (y,) = [y for y in maker.outs if y.root.index == index][:1]
        if not whole(y):
            return None
        if self.level == FREE:
            if maker.op.again != "free" or y.dtype.kind != "f":
                return None
        elif name == "dropout" and y is maker.outs[0]:
            name, ins, floats = "multiply", [maker.ins[0], maker.outs[1]], ()
        elif name == "batch_norm" and y is maker.outs[0]:
            name, ins = "fixed_batch_norm", [*maker.ins[:3], *maker.outs[1:3], *maker.ins[3:]]
            ints = (maker.ints[0] | AS_BATCH_NORM,)
        elif not maker.op.again:
            return None
        origin = f"{maker.label} again", maker.line, maker.link
        return Instruction(BY_NAME[name], list(ins), [y], ints, floats, *origin)

    def copies(self, forward: list[Instruction]) -> list[Instruction]:
        """A forward that copies what the caller may change before the backward reads it again."""
        copied = Replacement(self.table)
        before: dict[int, Row] = {}
        for again in self.makers.values():
            for x in again.ins:
                if x.root.slot is not None and x.root.slot.kind == BOUND:
                    before[x.root.index] = x.root
        if not before:
            return forward
        result: list[Instruction] = []
        for instruction in forward:
            if any(y.root.index in self.makers for y in instruction.outs):
                for x in instruction.ins:
                    root = before.pop(x.root.index, None)
                    if root is not None:
                        new = self.table.root(root.shape, root.dtype, None, root.name)
                        copied.replace(root, new)
                        origin = instruction.label, instruction.line, instruction.link
                        result.append(Instruction(BY_NAME["copy"], [root], [new], (), (), *origin))
            result.append(instruction)
        for again in self.makers.values():
            again.ins = copied.all_of(again.ins)
        return result

    def insert(self, backward: list[Instruction]) -> list[Instruction]:
        """A backward with the ops that make again what it reads, each before its first reader.

        Parameters
        ----------
        backward : list of Instruction
            For any gradient pattern; its instructions are changed.

        Returns
        -------
        list of Instruction
        """
        if not self.makers:
            return backward
        result: list[Instruction] = []
        known = Replacement(self.table)
        for instruction in backward:
            rows = known if self.level == LOW else Replacement(self.table)
            for x in instruction.ins:
                self._emit(x.root, rows, result)
            instruction.ins = rows.all_of(instruction.ins)
            result.append(instruction)
        return result

    def _emit(self, root: Row, rows: Replacement, result: list[Instruction]) -> None:
        again = self.makers.get(root.index)
        if again is None or root.index in rows.roots:
            return
        for x in again.ins:
            self._emit(x.root, rows, result)
        (y,) = again.outs
        new = self.table.root(y.root.shape, y.root.dtype, None, y.root.name)
        rows.replace(root, new)
        result.append(
            Instruction(
                again.op,
                rows.all_of(again.ins),
                [rows.of(y)],
                again.ints,
                again.floats,
                again.label,
                again.line,
                again.link,
            )
        )


def _held(forward: list[Instruction], backward: list[Instruction]) -> int:
    """Bytes that the backward reads of what the forward makes."""
    made = {y.root.index for instruction in forward for y in instruction.outs}
    read = {x.root.index: x.root.nbytes for instruction in backward for x in instruction.ins}
    return sum(nbytes for index, nbytes in read.items() if index in made)


def recipes(
    forward: list[Instruction],
    backward: list[Instruction],
    table: BufferTable,
    low: bool,
    on: frozenset[str],
    together: bool,
) -> Recipes | None:
    """What of a forward its backward makes again; None when the pass is off.

    Parameters
    ----------
    forward, backward : list of Instruction
    table : BufferTable
    low : bool
        ``memory='low'``; what holds more than ``table.machine.most_held`` bytes is treated so
        in any case.
    on : frozenset of str
        The passes that are on.
    together : bool
        Whether both are one program.
    """
    if "recomputation" not in on:
        return None
    low = low or _held(forward, backward) > table.machine.most_held
    if not (low or "elementwise" in on):
        return None
    if not low and not any(instruction.op.again == "free" for instruction in forward):
        return None
    return Recipes(forward, backward, table, LOW if low else FREE, together)
