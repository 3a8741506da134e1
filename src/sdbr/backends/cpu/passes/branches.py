"""Independent branches that run at the same time: actor and critic, the parts of a block.

A stretch of instructions is cut into the sets that depend on each other; where running these sets
on several threads saves enough, they are put one after the other behind a ``fork``. What must keep
its place (effects, draws, Python ops, indices from data, which may be an error) ends a stretch, and
so does an op that is large enough to be cut into parts itself.
"""

from __future__ import annotations

import itertools

from sdbr.base.threads import num_threads
from sdbr.ops.table import BY_NAME
from sdbr.program.branches import MOST
from sdbr.program.buffers import BufferTable, Row
from sdbr.program.builder import Instruction

#: Nanoseconds (measured, see docs/performance.md): what a fork costs while the workers are awake,
#: and what must be saved for it. Between the forks of small programs the workers fall asleep, and
#: waking them takes longer than such branches do: actor and critic of 64 units gained nothing.
COST, LEAST_GAIN = 3e3, 5e4
#: An op that takes longer is cut into parts, see sdbr.backends.cpu.prepare.splitting.
LARGE = 40e3
#: The longest stretch that is looked at from one point.
MOST_INSTRUCTIONS = 400


def branches(
    instructions: list[Instruction], kept: set[int], table: BufferTable
) -> list[Instruction]:
    """Put independent branches behind forks; without threads, leave everything as it is."""
    threads = min(num_threads(), MOST)
    if threads < 2 or len(instructions) < 4:
        return instructions
    costs = [_nanoseconds(instruction) for instruction in instructions]
    result: list[Instruction] = []
    at = 0
    forks = _fork_points(instructions)
    most = _most_gain(costs, threads)
    met: list[list[int]] | None = None
    while at < len(instructions):
        found = None
        if at in forks and most[at] > LEAST_GAIN:
            met = _met(instructions) if met is None else met
            found = _best_region(met, costs, at, threads)
        if found is None:
            result.append(instructions[at])
            at += 1
            continue
        end, groups = found
        lengths = [len(group) for group in groups] + [0] * (MOST - len(groups))
        label = " | ".join(instructions[group[0]].label for group in groups)
        result.append(Instruction(BY_NAME["fork"], [], [], tuple(lengths), (), label))
        result.extend(instructions[i] for group in groups for i in group)
        at = end
    return result if len(result) > len(instructions) else instructions


def _nanoseconds(instruction: Instruction) -> float:
    """A rough price; infinite where a stretch must end."""
    op = instruction.op
    operands = [*instruction.ins, *instruction.outs]
    if op.effect or op.divides or op.reads_indices:
        return float("inf")
    nbytes = sum(row.nbytes for row in operands)
    price = nbytes / 8 + 20
    if op.product:
        c = instruction.outs[0]
        inner = instruction.ins[0].nbytes // instruction.ins[0].dtype.itemsize
        if "trans_a" in op.ints and instruction.ints[0]:
            rows = instruction.ins[0].shape[-1]
        else:
            rows = instruction.ins[0].shape[-2]
        count = c.shape[0] if c.ndim == 3 else 1
        size = c.nbytes // c.dtype.itemsize
        price += size * (inner / max(rows * count, 1)) / 50
    return float("inf") if price > LARGE else price


def _fork_points(instructions: list[Instruction]) -> set[int]:
    """Where branches may begin: at the start, and behind what several instructions read."""
    readers: dict[int, int] = {}
    for instruction in instructions:
        for root in {x.root.index for x in instruction.ins}:
            readers[root] = readers.get(root, 0) + 1
    points = {0}
    for i, instruction in enumerate(instructions):
        if instruction.op.effect or any(readers.get(y.root.index, 0) > 1 for y in instruction.outs):
            points.add(i + 1)
    return points


def _most_gain(costs: list[float], threads: int) -> list[float]:
    """What the stretch from each instruction on could save if it fell into equal branches."""
    ends = [0] * len(costs)  # where an op ends a stretch
    end = len(costs)
    for i in reversed(range(len(costs))):
        end = i if costs[i] == float("inf") else end
        ends[i] = end
    finite = [0.0 if cost == float("inf") else cost for cost in costs]
    sums = [0.0, *itertools.accumulate(finite)]
    share = 1 - 1 / threads
    return [
        (sums[min(end, i + MOST_INSTRUCTIONS)] - sums[i]) * share - COST
        for i, end in enumerate(ends)
    ]


def _met(instructions: list[Instruction]) -> list[list[int]]:
    """Per instruction the earlier ones whose memory it touches, one of the two writing.

    Of those that one stretch may hold together with it.
    """
    touched: tuple[dict, dict] = {}, {}  # who reads and who writes a root, and which bytes
    found: list[list[int]] = []
    for i, instruction in enumerate(instructions):
        met: set[int] = set()
        uses = [(row, 0) for row in instruction.ins] + [(row, 1) for row in instruction.outs]
        spans = [(row.root.index, *_extent(row), writes) for row, writes in uses]
        for root, lo, hi, writes in spans:
            for known in touched if writes else touched[1:]:
                for k, start, stop in reversed(known.get(root, ())):
                    if k < i - MOST_INSTRUCTIONS:
                        break
                    if start < hi and lo < stop:
                        met.add(k)
        for root, lo, hi, writes in spans:
            touched[writes].setdefault(root, []).append((i, lo, hi))
        found.append(sorted(met))
    return found


class _Stretch:
    """Instructions from one point on, in sets that depend on each other.

    A set goes by its last instruction.
    """

    def __init__(self, threads: int, start: int):
        self.threads = threads
        self.start = start
        self.parts: dict[
            int, list[int]
        ] = {}  # last instruction -> the sets that it has put together
        self.price: dict[int, float] = {}
        self.of: dict[int, int] = {}  # instruction -> a later one of its set; the last one: itself

    def add(self, i: int, met: list[int], price: float) -> None:
        """Put one instruction into the set of all it depends on, which become one."""
        sets = {self._last(k) for k in met if k >= self.start}
        self.price[i] = price + sum(self.price.pop(m) for m in sets)
        self.parts[i] = list(sets)
        self.of[i] = i
        for m in sets:
            self.of[m] = i

    def _last(self, k: int) -> int:
        """The last instruction of the set of one."""
        way = []
        while self.of[k] != k:
            way.append(k)
            k = self.of[k]
        for passed in way:
            self.of[passed] = k
        return k

    def gain(self) -> float:
        """Nanoseconds that threads save."""
        if len(self.price) < 2:
            return 0.0
        bins = [0.0] * self.threads
        for price in sorted(self.price.values(), reverse=True):
            k = bins.index(min(bins))
            bins[k] += price
        return sum(bins) - max(bins) - COST

    def groups(self) -> list[list[int]]:
        """The sets, dealt out to the threads."""
        bins: list[tuple[float, list[int]]] = [(0.0, []) for _ in range(self.threads)]
        for m in sorted(self.price, key=lambda m: -self.price[m]):
            k = min(range(self.threads), key=lambda b: bins[b][0])
            bins[k] = (bins[k][0] + self.price[m], bins[k][1] + self._members(m))
        return [sorted(members) for _, members in bins if members]

    def _members(self, last: int) -> list[int]:
        members, stack = [], [last]
        while stack:
            members.append(stack.pop())
            stack.extend(self.parts[members[-1]])
        return members


def _best_region(met, costs, start, threads) -> tuple[int, list[list[int]]] | None:
    """The end of the stretch from `start` on that saves most, and its branches."""
    stretch = _Stretch(threads, start)
    end, most = None, LEAST_GAIN
    for i in range(start, min(len(costs), start + MOST_INSTRUCTIONS)):
        if costs[i] == float("inf"):
            break
        stretch.add(i, met[i], costs[i])
        gain = stretch.gain()
        if gain > most:
            end, most = i + 1, gain
        elif end is not None and gain <= 0:
            break  # the branches have met
    if end is None:
        return None
    best = _Stretch(threads, start)
    for i in range(start, end):
        best.add(i, met[i], costs[i])
    return end, best.groups()


def _extent(row: Row) -> tuple[int, int]:
    """First and last byte that a row may touch, within its root."""
    if row.is_contiguous:
        return row.offset, row.offset + row.nbytes
    lo = hi = row.offset
    for n, step in zip(row.shape, row.strides, strict=True):
        if n == 0:
            return row.offset, row.offset
        if step < 0:
            lo += (n - 1) * step
        else:
            hi += (n - 1) * step
    return lo, hi + row.dtype.itemsize
