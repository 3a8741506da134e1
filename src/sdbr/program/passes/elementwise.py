"""Chains of elementwise ops in one pass over memory.

Ops on equally many elements that share values become one op ``fused`` (`sdbr.ops.fused`): its
blocks go through all steps while they are in the cache, and values that nobody else reads never
reach memory. Groups are collected in one walk over the instructions; to join its group, an op is
moved to the place of the group, or the group to the place of the op, where nothing in between reads
or writes what they write or read, and where no more memory is alive than before.
"""

from __future__ import annotations

from sdbr.ops import fused
from sdbr.ops.fused import MAX_AXES, load_axes
from sdbr.ops.table import BY_NAME
from sdbr.program._rows import NEVER, is_bound, readers, whole, writer_counts, written
from sdbr.program.buffers import BufferTable, Row
from sdbr.program.builder import Instruction
from sdbr.program.machine import Machine

import numpy as np

FLOATS = (np.dtype("f4"), np.dtype("f8"))

#: Groups that are open for more at a time, ops of one, and instructions that an op may pass.
OPEN_GROUPS = 6
LONGEST_GROUP = 48
FURTHEST = 16


def elementwise(
    instructions: list[Instruction], kept: set[int], table: BufferTable | None = None
) -> list[Instruction]:
    """Put elementwise ops together; see the module.

    Parameters
    ----------
    instructions : list of Instruction
    kept : set of int
        Root row indices that are read after the program.
    table : BufferTable, optional
    """
    machine = Machine() if table is None else table.machine
    if not any(i.op.step and i.outs[0].size >= machine.shortest_fused for i in instructions):
        return instructions
    return _Walk(instructions, kept, machine.shortest_fused).run()


class _Group:
    """Ops that may become one.

    Attributes
    ----------
    members : list of (int, Instruction)
        With their positions in the program as it was.
    place : int
        Where it stands in the new program.
    reads, writes : set of int
        Roots from outside that members read, and roots that they write.
    read_after, written_after : set of int
        Roots that instructions behind the group read and write.
    passed : int
        How many instructions are behind it.
    python_after : bool
        Whether a Python op is: it may write what the caller has bound.
    """

    def __init__(self, place: int):
        self.members: list[tuple[int, Instruction]] = []
        self.place = place
        self.reads: set[int] = set()
        self.writes: set[int] = set()
        self.linked: set[int] = set()
        self.bound = False
        self.clear_after()

    def clear_after(self) -> None:
        self.read_after: set[int] = set()
        self.written_after: set[int] = set()
        self.passed = 0
        self.python_after = False

    def add(self, position: int, instruction: Instruction) -> None:
        self.members.append((position, instruction))
        for x in instruction.ins:
            if x.root.index not in self.writes:
                self.reads.add(x.root.index)
                self.bound |= is_bound(x)
        self.linked.update(_links(instruction))
        y = instruction.outs[0].root.index
        self.writes.add(y)
        self.linked.add(y)

    def absorb(self, other: _Group) -> None:
        """Take over the members of another group."""
        members = sorted(self.members + other.members, key=lambda m: m[0])
        self.members, self.reads, self.writes, self.linked = [], set(), set(), set()
        for position, instruction in members:
            self.add(position, instruction)

    def note(self, instruction: Instruction) -> None:
        """An instruction now stands behind the group."""
        self.passed += 1
        self.read_after.update(x.root.index for x in instruction.ins)
        self.written_after.update(written(instruction))
        self.python_after |= instruction.op.python

    def free_to_rise(self, reads: set[int], bound: bool) -> bool:
        """Whether what reads these roots may move to the place of the group."""
        if self.passed > FURTHEST or (self.python_after and bound):
            return False
        return self.written_after.isdisjoint(reads)

    def free_to_sink(self) -> bool:
        """Whether the group may move behind everything."""
        if self.passed > FURTHEST or (self.python_after and self.bound):
            return False
        return self.read_after.isdisjoint(self.writes) and self.written_after.isdisjoint(self.reads)


class _Walk:
    """One walk over a program."""

    def __init__(self, instructions: list[Instruction], kept: set[int], shortest: int):
        self.instructions = instructions
        self.kept = kept
        self.shortest = shortest  # in elements
        self.new: list[Instruction | _Group | None] = []
        self.open: list[tuple[tuple, _Group]] = []
        self.writers = writer_counts(instructions)
        self.readers = readers(instructions)

    def run(self) -> list[Instruction]:
        for i, instruction in enumerate(self.instructions):
            if self.is_candidate(instruction):
                self.join(i, instruction)
            else:
                self.new.append(instruction)
                for _, group in self.open:
                    group.note(instruction)
        result: list[Instruction] = []
        for item in self.new:
            if isinstance(item, _Group):
                result += self.emit([instruction for _, instruction in item.members])
            elif item is not None:
                result.append(item)
        return result

    def is_candidate(self, instruction: Instruction) -> bool:
        if not instruction.op.step:
            return False
        (y,) = instruction.outs
        if y.dtype not in FLOATS or y.size < self.shortest or not whole(y) or is_bound(y):
            return False  # what the caller has bound may be read by others before it is written
        if self.writers[y.root.index] != 1:
            return False
        return all(x.dtype == y.dtype and _loadable(x) for x in instruction.ins)

    # --- joining ---------------------------------------------------------------------------------
    def join(self, position: int, instruction: Instruction) -> None:
        y = instruction.outs[0]
        key = (y.size, y.dtype)
        linked = _links(instruction)
        found = [g for k, g in self.open if k == key and not g.linked.isdisjoint(linked)]
        found = [g for g in found if self.takes(g, instruction)]
        group = self.together(found, position, instruction)
        if group is None:
            group = _Group(len(self.new))
            self.new.append(group)
            self.open.append((key, group))
            if len(self.open) > OPEN_GROUPS:
                del self.open[0]
        group.add(position, instruction)
        for _, other in self.open:
            if other.place < group.place:
                other.note(instruction)

    def takes(self, group: _Group, instruction: Instruction) -> bool:
        """Whether registers of the group can serve the instruction."""
        if len(group.members) >= LONGEST_GROUP:
            return False
        return all(x.root.index not in group.writes or whole(x) for x in instruction.ins)

    def together(self, groups: list[_Group], position: int, instruction: Instruction):
        """The one group that the instruction joins, moved and merged where it can be, or None."""
        reads = {x.root.index for x in instruction.ins}
        bound = any(map(is_bound, instruction.ins))
        groups = sorted(groups, key=lambda g: g.place)
        if not groups:
            return None
        first = groups[0]
        rest = groups[1:]
        if rest and sum(len(g.members) for g in groups) < LONGEST_GROUP:
            made = set().union(*(g.writes for g in groups))
            needs = set().union(reads, *(g.reads for g in rest)) - made
            any_bound = bound or any(g.bound for g in rest)
            beside = first.passed == sum(len(g.members) for g in rest)
            worth = self.worth(groups, position, instruction, not beside)
            if worth and first.free_to_rise(needs, any_bound):
                return self.merge(first, rest)
            if worth and all(g.free_to_sink() for g in groups):
                return self.merge(self.sink(groups[-1]), groups[:-1])
        for group in reversed(groups):
            outside = reads - group.writes
            if not group.passed:
                return group
            if not self.worth([group], position, instruction, True):
                continue
            if group.free_to_rise(outside, bound):
                return group
            if group.free_to_sink():
                return self.sink(group)
        return None

    def merge(self, group: _Group, others: list[_Group]) -> _Group:
        for other in others:
            self.new[other.place] = None
            self.open = [(k, g) for k, g in self.open if g is not other]
            group.absorb(other)
            for _, g in self.open:
                if g.place < group.place and g is not group:
                    for _, instruction in other.members:
                        g.note(instruction)
        return group

    def sink(self, group: _Group) -> _Group:
        if not group.passed:
            return group
        self.new[group.place] = None
        for _, other in self.open:
            if other is not group and other.place > group.place:
                for _, instruction in group.members:
                    other.note(instruction)
        group.place = len(self.new)
        self.new.append(group)
        group.clear_after()
        return group

    # --- memory ----------------------------------------------------------------------------------
    def last_read(self, root: Row) -> int:
        if root.slot is not None or root.index in self.kept:
            return NEVER
        return self.readers.get(root.index, (-1,))[-1]

    def worth(
        self, groups: list[_Group], position: int, instruction: Instruction, moved: bool
    ) -> bool:
        """Whether one op keeps no more arrays alive than the ops in their order do.

        `moved`: other instructions stand between them, which it is moved over.
        """
        members = sorted([m for g in groups for m in g.members], key=lambda m: m[0])
        members.append((position, instruction))
        positions = {p for p, _ in members}
        last: dict[int, int] = {}
        made: set[int] = set()
        outside: set[int] = set()
        for _, member in members:
            for x in member.ins:
                if x.root.index not in made and whole(x):
                    outside.add(x.root.index)
                    last[x.root.index] = self.last_read(x.root)
            y = member.outs[0].root
            made.add(y.index)
            last[y.index] = self.last_read(y)
        peak = 0
        alive = set(outside)
        for p, member in members:
            y = member.outs[0].root.index
            dying = {x.root.index for x in member.ins if last.get(x.root.index) == p}
            peak = max(peak, len(alive) + (0 if dying else 1))
            alive.add(y)
            alive -= {i for i in alive if last[i] <= p}
        outputs = [
            i for i in made if last[i] == NEVER or not positions.issuperset(self.readers.get(i, ()))
        ]
        dying = [i for i in outside if last[i] <= position]
        if moved and not any(last.get(x.root.index) == position for x in instruction.ins):
            return False  # what it makes would be alive for longer
        return len(outside) + max(len(outputs) - len(dying), 0) <= peak

    # --- emitting --------------------------------------------------------------------------------
    def emit(self, members: list[Instruction]) -> list[Instruction]:
        """The instructions that a group becomes: one, or more where it is too large."""
        if len(members) == 1 or all(m.op.moves for m in members):
            return members
        instruction = self.as_one(members)
        if instruction is not None:
            return [instruction]
        half = len(members) // 2
        return self.emit(members[:half]) + self.emit(members[half:])

    def as_one(self, members: list[Instruction]) -> Instruction | None:
        made = {m.outs[0].root.index: m.outs[0] for m in members}
        inside = {id(m) for m in members}
        outputs = []
        for index, y in made.items():
            readers = self.readers.get(index, ())
            away = any(id(self.instructions[p]) not in inside for p in readers)
            if y.root.slot is not None or index in self.kept or away or not readers:
                outputs.append(y)
        inputs: dict[tuple, Row] = {}
        for m in members:
            for x in m.ins:
                if x.root.index not in made:
                    inputs.setdefault(_flat_key(x), x)
        if len(inputs) + len(outputs) > fused.MAX_OPERANDS:
            return None
        steps = _steps(members, list(inputs), outputs, made)
        if steps is None:
            return None
        ints, numbers = fused.encode(steps)
        return Instruction(
            BY_NAME["fused"],
            list(inputs.values()),
            outputs,
            ints,
            numbers,
            " + ".join(dict.fromkeys(m.label for m in members)),
            members[-1].line,
            members[-1].link,
            flushes=all(m.flushes for m in members),
        )


def _steps(members, inputs: list[tuple], outputs: list[Row], made: dict[int, Row]):
    """The members as steps on registers; None when they need too many temporaries."""
    fixed = {key: r for r, key in enumerate(inputs)}
    base = len(inputs) + len(outputs)
    register = {y.root.index: len(inputs) + i for i, y in enumerate(outputs)}
    last: dict[int, int] = {}
    for i, m in enumerate(members):
        last[m.outs[0].root.index] = i
        last.update((x.root.index, i) for x in m.ins if x.root.index in made)
    free = list(range(base + fused.MAX_TEMPORARIES - 1, base - 1, -1))
    steps = []
    at = 0
    for i, m in enumerate(members):
        ins = tuple(
            register[x.root.index] if x.root.index in made else fixed[_flat_key(x)] for x in m.ins
        )
        # What dies here is free for the result: a step may write over what it reads.
        for index in {x.root.index for x in m.ins}:
            if index in made and last[index] == i and register[index] >= base:
                free.append(register[index])
        y = m.outs[0].root.index
        if y not in register:
            if not free:
                return None
            register[y] = free.pop()
        steps.append(fused.Step(m.op, ins, register[y], m.floats, at))
        at += len(m.floats)
    return steps


def _flat_key(x: Row) -> tuple:
    """What tells two inputs apart: where they lie and how their elements follow one another."""
    return x.root.index, x.offset, tuple(load_axes(x.shape, x.strides)), x.size


def _loadable(x: Row) -> bool:
    """Whether the elements of an input are met in the order of memory, give or take repeats."""
    if x.is_contiguous:
        return True
    axes = load_axes(x.shape, x.strides)
    steps = [abs(stride) for _, stride in axes if stride]
    return len(axes) <= MAX_AXES and steps == sorted(steps, reverse=True)


def _links(instruction: Instruction) -> set[int]:
    """The roots that make an op one of a group: those of a number for all elements do not."""
    return {x.root.index for x in instruction.ins if x.root.size > 1 and any(x.strides)}
