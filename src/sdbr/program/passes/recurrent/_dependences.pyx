# cython: nonecheck=True
"""Which instructions must run before which, compiled: long loops have many of them."""

import heapq
from bisect import bisect_left, bisect_right

from sdbr.program._layout cimport Instruction, Row
from sdbr.program._rows cimport is_bound, layout, overlap, reach, whole


cdef class Spans:
    """Bytes of one root, each with who uses them: found by where they are.

    Those of about one length stand together, in the order of their first bytes: who looks for some
    bytes does not meet all of those that begin somewhere before them.
    """

    # By the bits of the length: first bytes, and first byte, end and who uses them.
    cdef dict lengths

    def __init__(self):
        self.lengths = {}

    cpdef add(self, Py_ssize_t low, Py_ssize_t high, Py_ssize_t who):
        """Take note of a use."""
        cdef Py_ssize_t bits = (high - low).bit_length(), at
        cdef list starts, spans
        known = self.lengths.get(bits)
        if known is None:
            self.lengths[bits] = [low], [(low, high, who)]
            return
        starts, spans = known
        # Most come in the order in which they lie there.
        at = len(starts)
        if <Py_ssize_t>starts[at - 1] > low:
            at = bisect_right(starts, low)
        starts.insert(at, low)
        spans.insert(at, (low, high, who))

    cpdef list over(self, Py_ssize_t low, Py_ssize_t high):
        """Who uses some of these bytes."""
        cdef list found = [], starts, spans
        cdef Py_ssize_t k, first, last
        cdef tuple span
        for bits, (starts, spans) in self.lengths.items():
            first = bisect_right(starts, low - (1 << bits))
            last = bisect_left(starts, high, first)
            for k in range(first, last):
                span = spans[k]
                if low < <Py_ssize_t>span[1]:
                    found.append(span[2])
        return found


cdef class Dependences:
    """The order that data and effects ask for, as a graph; nodes may be put together.

    A node is named by its first instruction. Two instructions are ordered when one writes bytes
    that the other reads or writes, when both have effects, and when one writes memory of the caller
    (where two arrays may be one) that the other touches.

    Attributes
    ----------
    before, after : list of set of int
        What must run directly before and after a node; None of one that was put into another.
    members : list of list of int
        The instructions of each node.
    node : list of int
        Of each instruction its node.
    rank : list of int
        By node: its number in an order that is right. Ways lead to higher numbers alone, so nothing
        is looked for beyond those of the nodes that are asked about.
    """

    cdef readonly list node, members, before, after, rank
    # By root: who has written all of it last, and who has read it since.
    cdef dict _writer, _readers
    # The same of roots that are used in parts: who has read and written which bytes.
    cdef dict _parts

    def __init__(self, list instructions):
        cdef Py_ssize_t n = len(instructions), i, writer = -1, effect = -1
        cdef Instruction instruction
        cdef list writes, rows, touched = []  # that use memory of the caller since it was written
        cdef Row row
        cdef bint shared = False
        self.node = list(range(n))
        self.rank = list(range(n))
        self.members = [[i] for i in range(n)]
        self.before = [set() for _ in range(n)]
        self.after = [set() for _ in range(n)]
        self._writer, self._readers, self._parts = {}, {}, {}
        writes = [_writes(instruction) for instruction in instructions]
        for rows in writes:
            shared = shared or _any_bound(rows)
        for i in range(n):
            instruction = instructions[i]
            for row in <list?>instruction.ins:
                self._read(row, i)
            rows = writes[i]
            for row in rows:
                self._write(row, i)
            if instruction.op.effect:
                self._edge(effect, i)
                effect = i
            if not shared:
                continue
            if instruction.op.python or _any_bound(rows):
                for k in touched:
                    self._edge(k, i)
                self._edge(writer, i)
                writer, touched = i, []
            elif _any_bound(instruction.ins):
                self._edge(writer, i)
                touched.append(i)

    cdef _edge(self, Py_ssize_t first, Py_ssize_t second):
        if 0 <= first != second:
            (<set?>self.after[first]).add(second)
            (<set?>self.before[second]).add(first)

    cdef _read(self, Row row, Py_ssize_t i):
        cdef Row root = row.root
        cdef Py_ssize_t low = 0, high = 0
        cdef Spans readers, writers
        cdef list known
        key = root.index
        parts = self._parts.get(key) if self._parts else None
        if parts is None and whole(row):
            found = self._writer.get(key)
            if found is not None:
                self._edge(found, i)
            known = self._readers.get(key)
            if known is None:
                self._readers[key] = [i]
            else:
                known.append(i)
            return
        readers, writers = parts or self._in_parts(root)
        reach(row, &low, &high)
        for k in writers.over(low, high):
            self._edge(k, i)
        readers.add(low, high, i)

    cdef _write(self, Row row, Py_ssize_t i):
        cdef Row root = row.root
        cdef Py_ssize_t low = 0, high = 0
        cdef Spans readers, writers
        key = root.index
        parts = self._parts.pop(key, None) if self._parts else None
        if whole(row):  # who comes later comes after this one
            if parts is None:
                for k in self._readers.pop(key, ()):
                    self._edge(k, i)
                self._edge(self._writer.get(key, i), i)
            else:
                reach(row, &low, &high)
                for readers in parts:
                    for k in readers.over(low, high):
                        self._edge(k, i)
            self._writer[key] = i
            return
        self._parts[key] = parts = parts or self._in_parts(root)
        writers = parts[1]
        reach(row, &low, &high)
        for readers in parts:
            for k in readers.over(low, high):
                self._edge(k, i)
        writers.add(low, high, i)

    cdef tuple _in_parts(self, Row root):
        """From now on it is noted which bytes of a root are used."""
        cdef Spans readers = Spans(), writers = Spans()
        key = root.index
        self._parts[key] = readers, writers
        for i in self._readers.pop(key, ()):
            readers.add(0, root.nbytes, i)
        if key in self._writer:
            writers.add(0, root.nbytes, self._writer.pop(key))
        return readers, writers

    def sorted(self):
        """The nodes in an order that is right, and as near to that of the program as it can be."""
        cdef list waiting = [-1 if before is None else len(before) for before in self.before]
        cdef list ready = [node for node, n in enumerate(waiting) if n == 0]
        cdef list result = []
        cdef Py_ssize_t left
        heapq.heapify(ready)
        pop, push = heapq.heappop, heapq.heappush
        while ready:
            node = pop(ready)
            result.append(node)
            for k in <set?>self.after[node]:
                left = waiting[k] - 1
                waiting[k] = left
                if left == 0:
                    push(ready, k)
        return result

    def levels(self, instructions):
        """For each of some nodes, how many others of them lie on the longest way to it.

        Nodes of one level are independent of each other. To be asked before nodes are put
        together: they stand in the order of the program then.
        """
        cdef list chosen = sorted(set(instructions))
        cdef Py_ssize_t first = chosen[0], n = chosen[len(chosen) - 1] + 1 - first, node, k, most
        cdef list level = [-1] * n  # -1: no way leads there
        cdef bytearray member = bytearray(n)
        for node in chosen:
            member[node - first] = 1
        for node in range(n):
            most = 0
            for other in <set?>self.before[node + first]:
                k = <Py_ssize_t>other - first
                if k >= 0 and <Py_ssize_t>level[k] >= 0:
                    most = max(most, <Py_ssize_t>level[k] + member[k])
            if most or member[node]:
                level[node] = most
        return {node: level[node - first] for node in chosen}

    cdef set _between(self, set chosen, list edges):
        """Where ways lead along `edges` that leave some nodes, between the ranks of these.

        The nodes themselves are among it where a way leads back to them.
        """
        cdef list rank = self.rank
        cdef list ranks = [rank[node] for node in chosen]
        cdef Py_ssize_t low = min(ranks), high = max(ranks), at
        cdef list stack = [k for node in chosen for k in edges[node] if k not in chosen]
        cdef set seen = set()
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            at = rank[node]
            if low <= at <= high:
                seen.add(node)
                if node not in chosen:
                    stack.extend(edges[node])
        return seen

    def contract(self, nodes):
        """Put nodes together into one, the new node.

        None where that would close a circle: a way leads from one of them out of them and back in.
        """
        cdef set chosen = set(nodes), later, before = set(), after = set()
        cdef list members = []
        later = self._between(chosen, self.after)
        if not chosen.isdisjoint(later):
            return None
        first = min(chosen)
        self._rank_together(chosen, first, later)
        for k in chosen:
            before |= <set?>self.before[k]
            after |= <set?>self.after[k]
            members += self.members[k]
            for other in <set?>self.before[k]:
                if other not in chosen:
                    (<set?>self.after[other]).discard(k)
            for other in <set?>self.after[k]:
                if other not in chosen:
                    (<set?>self.before[other]).discard(k)
        for k in chosen:
            self.before[k] = self.after[k] = self.members[k] = None
        before -= chosen
        after -= chosen
        members.sort()
        # Named by its first instruction, which is that of its first node.
        self.before[first], self.after[first], self.members[first] = before, after, members
        for other in before:
            (<set?>self.after[other]).add(first)
        for other in after:
            (<set?>self.before[other]).add(first)
        for i in members:
            self.node[i] = first
        return first

    cdef _rank_together(self, set chosen, first, set later):
        """Give some nodes one rank: what leads to them comes before it, `later` after it.

        Ranks are exchanged among those that lie between them and have to do with them (as in
        Pearce & Kelly 2007, doi:10.1145/1187436.1210590, for one more edge).
        """
        cdef list rank = self.rank
        cdef set earlier = self._between(chosen, self.before)
        free = sorted([rank[node] for node in (*chosen, *earlier, *later)])
        front = [*sorted(earlier, key=rank.__getitem__), first]
        back = sorted(later, key=rank.__getitem__)
        places = free[: len(front)] + free[len(free) - len(back) :]
        for node, place in zip(front + back, places, strict=True):
            rank[node] = place


cdef list _writes(Instruction instruction):
    """What an instruction may write: ops with effects write inputs, too."""
    if instruction.op.effect and instruction.op.writes_inputs:
        return instruction.outs + instruction.ins
    return instruction.outs


cdef bint _any_bound(list rows) except -1:
    cdef Row row
    for row in rows:
        if is_bound(row):
            return True
    return False


cdef class Uses:
    """Who uses which bytes of roots last.

    Attributes
    ----------
    last : dict of int to int
        Root -> the last instruction that uses it.
    """

    cdef readonly list instructions
    cdef readonly dict last
    cdef dict _rows, _spans  # `_spans`: of roots that were asked about

    def __init__(self, list instructions):
        cdef Instruction instruction
        cdef Row row, root
        cdef list known
        cdef Py_ssize_t i
        self.instructions = instructions
        self.last, self._rows, self._spans = {}, {}, {}
        for i in range(len(instructions)):
            instruction = instructions[i]
            for rows in (instruction.ins, instruction.outs):
                for row in <list?>rows:
                    root = row.root
                    self.last[root.index] = i
                    known = self._rows.get(root.index)
                    if known is None:
                        self._rows[root.index] = [(row, i)]
                    else:
                        known.append((row, i))

    def moved(self, root, to):
        """A root has become a part of another one."""
        cdef Py_ssize_t low = 0, high = 0
        cdef Row row
        cdef list rows = self._rows.pop(root)
        cdef Spans spans = self._spans.get(to)
        self._rows[to] += rows
        self._spans.pop(root, None)
        if spans is not None:
            for row, i in rows:
                reach(row, &low, &high)
                spans.add(low, high, i)
        self.last[to] = max(self.last[to], self.last.pop(root))

    cdef Spans _of(self, root):
        cdef Py_ssize_t low = 0, high = 0
        cdef Row row
        cdef Spans spans = self._spans.get(root)
        if spans is None:
            spans = self._spans[root] = Spans()
            for row, i in self._rows.get(root, ()):
                reach(row, &low, &high)
                spans.add(low, high, i)
        return spans

    def heir(self, block, Py_ssize_t start, Py_ssize_t nbytes):
        """The output of the last op on some bytes of a block that may take their place."""
        cdef Row x, y, root
        cdef Py_ssize_t low = 0, high = 0, last, other
        cdef Instruction instruction
        cdef list users = self._of(block).over(start, start + nbytes)
        if not users:
            return None
        last = max(users)
        instruction = self.instructions[last]
        for o, k in instruction.memory_sharing():
            x, y = instruction.ins[k], instruction.outs[o]
            root = x.root
            if not (
                root.index == block
                and x.is_contiguous
                and y.is_contiguous
                and x.offset == start
                and x.nbytes == nbytes
                and y.nbytes == nbytes
                and y.dtype == x.dtype
                and y.root is not root
            ):
                continue
            root = y.root
            if root.slot is not None:
                continue
            reach(y, &low, &high)
            other = min(self._of(root.index).over(low, high), default=last)
            if other >= last and _alike(instruction.ins, k, x):
                return y
        return None


cdef bint _alike(list ins, Py_ssize_t k, Row x) except -1:
    """Whether other inputs that reach into the bytes of one of them lie there as it does."""
    cdef Row z
    cdef Py_ssize_t j, low = 0, high = 0
    reach(x, &low, &high)
    for j in range(len(ins)):
        z = ins[j]
        if j != k and z.root is x.root and overlap(z, low, high):
            if layout(z)[1:] != layout(x)[1:]:
                return False
    return True
