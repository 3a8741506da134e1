"""Independent branches that run at the same time: actor and critic, the parts of a block.

A stretch of instructions is cut into the sets that depend on each other; where running these sets
on several threads saves enough, they are put one after the other behind a ``fork``. What must keep
its place (effects, draws, Python ops, indices from data, which may be an error) ends a stretch, and
so does an op that is large enough to be cut into parts itself.
"""

from __future__ import annotations

import itertools
from array import array

from sdbr.backends.cpu.passes._stretches import Stretches
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
    stretches: Stretches | None = None
    while at < len(instructions):
        end = -1
        if at in forks and most[at] > LEAST_GAIN:
            if stretches is None:
                uses = _uses(instructions)
                stretches = Stretches(uses, costs, threads, MOST_INSTRUCTIONS, COST)
            end = stretches.best_end(at, LEAST_GAIN)
        if end < 0:
            result.append(instructions[at])
            at += 1
            continue
        groups = _dealt_out(stretches.sets(at, end), threads)
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


def _uses(instructions: list[Instruction]) -> array:
    """Which bytes of which roots each instruction reads and writes, see `Stretches`."""
    uses = array("q")
    for i, instruction in enumerate(instructions):
        for rows, writes in ((instruction.ins, 0), (instruction.outs, 1)):
            for row in rows:
                uses.extend((i, row.root.index, *_extent(row), writes))
    return uses


def _dealt_out(sets: list[tuple[float, list[int]]], threads: int) -> list[list[int]]:
    """The instructions of each thread, in order: a set goes to the one with the least to do."""
    bins: list[tuple[float, list[int]]] = [(0.0, []) for _ in range(threads)]
    for price, members in sorted(sets, key=lambda s: -s[0]):
        k = min(range(threads), key=lambda b: bins[b][0])
        bins[k] = (bins[k][0] + price, bins[k][1] + members)
    return [sorted(members) for _, members in bins if members]


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
