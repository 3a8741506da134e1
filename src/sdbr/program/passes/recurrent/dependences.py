"""Which instructions must run before which."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from sdbr.program.buffers import BOUND, Row
from sdbr.program.builder import Instruction
from sdbr.program.passes.rows import layout


def extent(row: Row) -> tuple[int, int]:
    """First byte and end of what a row reaches, from the start of its root."""
    if 0 in row.shape:
        return row.offset, row.offset
    reaches = [(n - 1) * step for n, step in zip(row.shape, row.strides, strict=True)]
    low = row.offset + sum(r for r in reaches if r < 0)
    return low, row.offset + sum(r for r in reaches if r > 0) + row.dtype.itemsize


def overlap(row: Row, low: int, high: int) -> bool:
    """Whether a row reaches into some bytes of its root."""
    start, end = extent(row)
    return start < high and low < end


class Dependences:
    """The order that data and effects ask for, as a graph; nodes may be put together.

    A node is named by its first instruction. Two instructions are ordered when one writes bytes
    that the other reads or writes, when both have effects, and when one writes memory of the caller
    (where two arrays may be one) that the other touches.

    Attributes
    ----------
    before, after : dict of int to set of int
        What must run directly before and after a node.
    members : dict of int to list of int
        The instructions of each node.
    """

    def __init__(self, instructions: list[Instruction]):
        n = len(instructions)
        self.node = list(range(n))
        self.members = {i: [i] for i in range(n)}
        self.before: dict[int, set[int]] = {i: set() for i in range(n)}
        self.after: dict[int, set[int]] = {i: set() for i in range(n)}
        self._readers: dict[int, list[tuple[int, int, int]]] = {}
        self._writers: dict[int, list[tuple[int, int, int]]] = {}
        writes = [_writes(instruction) for instruction in instructions]
        shared = any(_is_bound(row) for rows in writes for row in rows)
        touched: list[int] = []  # that use memory of the caller since it was written
        writer = effect = -1
        for i, instruction in enumerate(instructions):
            for row in instruction.ins:
                self._read(row, i)
            for row in writes[i]:
                self._write(row, i)
            if instruction.op.effect:
                self._edge(effect, i)
                effect = i
            if not shared:
                continue
            if any(_is_bound(row) for row in writes[i]):
                for k in [*touched, writer]:
                    self._edge(k, i)
                writer, touched = i, []
            elif any(_is_bound(row) for row in instruction.ins):
                self._edge(writer, i)
                touched.append(i)

    def _edge(self, first: int, second: int) -> None:
        if 0 <= first != second:
            self.after[first].add(second)
            self.before[second].add(first)

    def _read(self, row: Row, i: int) -> None:
        low, high = extent(row)
        key = row.root.index
        for start, end, k in self._writers.get(key, ()):
            if start < high and low < end:
                self._edge(k, i)
        self._readers.setdefault(key, []).append((low, high, i))

    def _write(self, row: Row, i: int) -> None:
        low, high = extent(row)
        key = row.root.index
        for known in (self._readers, self._writers):
            for start, end, k in known.get(key, ()):
                if start < high and low < end:
                    self._edge(k, i)
        if low <= 0 and high >= row.root.nbytes and row.is_contiguous:
            self._readers[key] = []  # who comes later comes after this one
            self._writers[key] = []
        self._writers.setdefault(key, []).append((low, high, i))

    def sorted(self) -> list[int]:
        """The nodes in an order that is right, and as near to that of the program as it can be."""
        waiting = {node: len(before) for node, before in self.before.items()}
        ready = [node for node, n in waiting.items() if n == 0]
        heapq.heapify(ready)
        result = []
        while ready:
            node = heapq.heappop(ready)
            result.append(node)
            for k in self.after[node]:
                waiting[k] -= 1
                if waiting[k] == 0:
                    heapq.heappush(ready, k)
        return result

    def levels(self, instructions: Iterable[int]) -> dict[int, int]:
        """For each of some nodes, how many others of them lie on the longest way to it.

        Nodes of one level are independent of each other.
        """
        chosen = set(instructions)
        level: dict[int, int] = {}
        for node in self.sorted():
            level[node] = max(
                (level[k] + (k in chosen) for k in self.before[node]),
                default=0,
            )
        return {node: level[node] for node in chosen}

    def is_convex(self, nodes: Iterable[int]) -> bool:
        """Whether no way leads from one of some nodes out of them and back in."""
        chosen = set(nodes)
        seen: set[int] = set()
        stack = [k for node in chosen for k in self.after[node] if k not in chosen]
        while stack:
            node = stack.pop()
            if node in chosen:
                return False
            if node not in seen:
                seen.add(node)
                stack.extend(self.after[node])
        return True

    def contract(self, nodes: Iterable[int]) -> int:
        """Put nodes together into one, which must not close a circle; the new node."""
        chosen = sorted(set(nodes))
        first = chosen[0]
        before = set().union(*(self.before[k] for k in chosen)) - set(chosen)
        after = set().union(*(self.after[k] for k in chosen)) - set(chosen)
        members = sorted(i for k in chosen for i in self.members[k])
        for k in chosen:
            for other in self.before.pop(k) - set(chosen):
                self.after[other].discard(k)
            for other in self.after.pop(k) - set(chosen):
                self.before[other].discard(k)
            del self.members[k]
        # Named by its first instruction, which is that of its first node.
        self.before[first], self.after[first], self.members[first] = before, after, members
        for other in before:
            self.after[other].add(first)
        for other in after:
            self.before[other].add(first)
        for i in members:
            self.node[i] = first
        return first


def _writes(instruction: Instruction) -> list[Row]:
    """What an instruction may write: ops with effects write inputs, too."""
    if instruction.op.effect and not instruction.op.draws:
        return [*instruction.outs, *instruction.ins]
    return instruction.outs


def _is_bound(row: Row) -> bool:
    return row.root.slot is not None and row.root.slot.kind == BOUND


class Uses:
    """Who uses which bytes of roots last."""

    def __init__(self, instructions: list[Instruction]):
        self.instructions = instructions
        self.rows: dict[int, list[tuple[int, int, int]]] = {}
        self.first_write: dict[int, int] = {}
        self.last: dict[int, int] = {}
        for i, instruction in enumerate(instructions):
            for row in (*instruction.ins, *instruction.outs):
                self.rows.setdefault(row.root.index, []).append((*extent(row), i))
                self.last[row.root.index] = i

    def heir(self, block: int, start: int, nbytes: int) -> Row | None:
        """The output of the last op on some bytes of a block that may take their place."""
        inside = [u for u in self.rows.get(block, ()) if u[0] < start + nbytes and start < u[1]]
        if not inside:
            return None
        last = max(i for _, _, i in inside)
        instruction = self.instructions[last]
        for o, k in instruction.memory_sharing():
            x, y = instruction.ins[k], instruction.outs[o]
            if (
                x.root.index == block
                and x.is_contiguous
                and y.is_contiguous
                and (x.offset, x.nbytes) == (start, nbytes)
                and y.nbytes == nbytes
                and y.dtype == x.dtype
                and y.root is not x.root
                and y.root.slot is None
                and all(
                    i >= last for low, high, i in self.rows[y.root.index] if overlap(y, low, high)
                )
                and all(
                    layout(z)[1:] == layout(x)[1:]
                    for j, z in enumerate(instruction.ins)
                    if j != k and z.root is x.root and overlap(x, *extent(z))
                )
            ):
                return y
        return None
