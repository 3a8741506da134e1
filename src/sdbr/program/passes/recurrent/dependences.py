"""Which instructions must run before which."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from sdbr.program.buffers import BOUND, Row
from sdbr.program.builder import Instruction
from sdbr.program.passes.rows import layout, whole


def extent(row: Row) -> tuple[int, int]:
    """First byte and end of what a row reaches, from the start of its root."""
    if row.is_contiguous:
        return row.offset, row.offset + row.nbytes
    reaches = [(n - 1) * step for n, step in zip(row.shape, row.strides, strict=True)]
    low = row.offset + sum(r for r in reaches if r < 0)
    return low, row.offset + sum(r for r in reaches if r > 0) + row.dtype.itemsize


def overlap(row: Row, low: int, high: int) -> bool:
    """Whether a row reaches into some bytes of its root."""
    start, end = extent(row)
    return start < high and low < end


class Spans:
    """Bytes of one root, each with who uses them: found by where they are.

    Those of about one length stand together, in the order of their first bytes: who looks for some
    bytes does not meet all of those that begin somewhere before them.
    """

    __slots__ = ("lengths",)

    def __init__(self) -> None:
        # By the bits of the length: first bytes, and first byte, end and who uses them.
        self.lengths: dict[int, tuple[list[int], list[tuple[int, int, int]]]] = {}

    def add(self, low: int, high: int, who: int) -> None:
        """Take note of a use."""
        bits = (high - low).bit_length()
        known = self.lengths.get(bits)
        if known is None:
            self.lengths[bits] = [low], [(low, high, who)]
            return
        starts, spans = known
        at = bisect_right(starts, low)
        starts.insert(at, low)
        spans.insert(at, (low, high, who))

    def over(self, low: int, high: int) -> list[int]:
        """Who uses some of these bytes."""
        found: list[int] = []
        for bits, (starts, spans) in self.lengths.items():
            first = bisect_right(starts, low - (1 << bits))
            last = bisect_left(starts, high, first)
            found += [who for _, end, who in spans[first:last] if low < end]
        return found


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
    rank : list of int
        By node: its number in an order that is right. Ways lead to higher numbers alone, so nothing
        is looked for beyond those of the nodes that are asked about.
    """

    def __init__(self, instructions: list[Instruction]):
        n = len(instructions)
        self.node = list(range(n))
        self.rank = list(range(n))
        self.members = {i: [i] for i in range(n)}
        self.before: dict[int, set[int]] = {i: set() for i in range(n)}
        self.after: dict[int, set[int]] = {i: set() for i in range(n)}
        # By root: who has written all of it last, and who has read it since.
        self._writer: dict[int, int] = {}
        self._readers: dict[int, list[int]] = {}
        # The same of roots that are used in parts: who has read and written which bytes.
        self._parts: dict[int, tuple[Spans, Spans]] = {}
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
            if instruction.op.python or any(_is_bound(row) for row in writes[i]):
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
        key = row.root.index
        parts = self._parts.get(key)
        if parts is None and whole(row):
            if key in self._writer:
                self._edge(self._writer[key], i)
            self._readers.setdefault(key, []).append(i)
            return
        readers, writers = parts or self._in_parts(row.root)
        low, high = extent(row)
        for k in writers.over(low, high):
            self._edge(k, i)
        readers.add(low, high, i)

    def _write(self, row: Row, i: int) -> None:
        key = row.root.index
        parts = self._parts.pop(key, None)
        if whole(row):  # who comes later comes after this one
            if parts is None:
                before = [*self._readers.pop(key, ()), self._writer.get(key, i)]
            else:
                before = [k for known in parts for k in known.over(*extent(row))]
            for k in before:
                self._edge(k, i)
            self._writer[key] = i
            return
        readers, writers = self._parts[key] = parts or self._in_parts(row.root)
        low, high = extent(row)
        for known in (readers, writers):
            for k in known.over(low, high):
                self._edge(k, i)
        writers.add(low, high, i)

    def _in_parts(self, root: Row) -> tuple[Spans, Spans]:
        """From now on it is noted which bytes of a root are used."""
        key = root.index
        parts = self._parts[key] = Spans(), Spans()
        for i in self._readers.pop(key, ()):
            parts[0].add(0, root.nbytes, i)
        if key in self._writer:
            parts[1].add(0, root.nbytes, self._writer.pop(key))
        return parts

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

        Nodes of one level are independent of each other. To be asked before nodes are put
        together: they stand in the order of the program then.
        """
        chosen = sorted(set(instructions))
        member = set(chosen)
        level: dict[int, int] = {}
        for node in range(chosen[0], chosen[-1] + 1):
            most = 0
            for k in self.before[node]:
                if k in level:
                    most = max(most, level[k] + (k in member))
            if most or node in member:
                level[node] = most
        return {node: level[node] for node in chosen}

    def _between(self, chosen: set[int], edges: dict[int, set[int]]) -> set[int]:
        """Where ways lead along `edges` that leave some nodes, between the ranks of these.

        The nodes themselves are among it where a way leads back to them.
        """
        rank = self.rank
        ranks = [rank[node] for node in chosen]
        low, high = min(ranks), max(ranks)
        stack = [k for node in chosen for k in edges[node] if k not in chosen]
        seen: set[int] = set()
        while stack:
            node = stack.pop()
            if node not in seen and low <= rank[node] <= high:
                seen.add(node)
                if node not in chosen:
                    stack.extend(edges[node])
        return seen

    def contract(self, nodes: Iterable[int]) -> int | None:
        """Put nodes together into one, the new node.

        None where that would close a circle: a way leads from one of them out of them and back in.
        """
        chosen = set(nodes)
        later = self._between(chosen, self.after)
        if not chosen.isdisjoint(later):
            return None
        first = min(chosen)
        self._rank_together(chosen, first, later)
        before = set().union(*(self.before[k] for k in chosen)) - chosen
        after = set().union(*(self.after[k] for k in chosen)) - chosen
        members = sorted(i for k in chosen for i in self.members[k])
        for k in chosen:
            for other in self.before.pop(k):
                if other not in chosen:
                    self.after[other].discard(k)
            for other in self.after.pop(k):
                if other not in chosen:
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

    def _rank_together(self, chosen: set[int], first: int, later: set[int]) -> None:
        """Give some nodes one rank: what leads to them comes before it, `later` after it.

        Ranks are exchanged among those that lie between them and have to do with them (as in
        Pearce & Kelly 2007, doi:10.1145/1187436.1210590, for one more edge).
        """
        rank = self.rank
        earlier = self._between(chosen, self.before)
        free = sorted(rank[node] for node in (*chosen, *earlier, *later))
        front = [*sorted(earlier, key=rank.__getitem__), first]
        back = sorted(later, key=rank.__getitem__)
        places = [*free[: len(front)], *free[len(free) - len(back) :]]
        for node, place in zip([*front, *back], places, strict=True):
            rank[node] = place


def _writes(instruction: Instruction) -> list[Row]:
    """What an instruction may write: ops with effects write inputs, too."""
    if instruction.op.writes_inputs:
        return [*instruction.outs, *instruction.ins]
    return instruction.outs


def _is_bound(row: Row) -> bool:
    return row.root.slot is not None and row.root.slot.kind == BOUND


class Uses:
    """Who uses which bytes of roots last.

    Attributes
    ----------
    last : dict of int to int
        Root -> the last instruction that uses it.
    """

    def __init__(self, instructions: list[Instruction]):
        self.instructions = instructions
        self.last: dict[int, int] = {}
        self._rows: dict[int, list[tuple[Row, int]]] = {}
        self._spans: dict[int, Spans] = {}  # of roots that were asked about
        for i, instruction in enumerate(instructions):
            for rows in (instruction.ins, instruction.outs):
                for row in rows:
                    key = row.root.index
                    self.last[key] = i
                    if key in self._rows:
                        self._rows[key].append((row, i))
                    else:
                        self._rows[key] = [(row, i)]

    def moved(self, root: int, to: int) -> None:
        """A root has become a part of another one."""
        rows = self._rows.pop(root)
        self._rows[to] += rows
        self._spans.pop(root, None)
        if to in self._spans:
            for row, i in rows:
                self._spans[to].add(*extent(row), i)
        self.last[to] = max(self.last[to], self.last.pop(root))

    def _of(self, root: int) -> Spans:
        if root not in self._spans:
            spans = self._spans[root] = Spans()
            for row, i in self._rows.get(root, ()):
                spans.add(*extent(row), i)
        return self._spans[root]

    def heir(self, block: int, start: int, nbytes: int) -> Row | None:
        """The output of the last op on some bytes of a block that may take their place."""
        inside = self._of(block).over(start, start + nbytes)
        if not inside:
            return None
        last = max(inside)
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
                and min(self._of(y.root.index).over(*extent(y)), default=last) >= last
                and all(
                    layout(z)[1:] == layout(x)[1:]
                    for j, z in enumerate(instruction.ins)
                    if j != k and z.root is x.root and overlap(x, *extent(z))
                )
            ):
                return y
        return None
