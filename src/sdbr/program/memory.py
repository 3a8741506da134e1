"""The memory plan: offsets in one arena from lifetimes.

Algorithm: roots without a slot, largest first, each at the lowest 64-byte
aligned offset at which it overlaps no root that is alive at the same time
(greedy by size, as in Pisarchyk & Lee 2020, arXiv:2001.03288). Many programs
hold thousands of equally small roots; for those a scan by first use with a
free list by size class gives the same bytes in linear time.
"""

from __future__ import annotations

import heapq
from bisect import insort

from sdbr.program._walks import lifetimes as lifetimes_of_roots
from sdbr.program.branches import Branches
from sdbr.program.buffers import ARENA, BufferTable, Row, Slot
from sdbr.program.builder import Instruction

ALIGNMENT = 64
FOREVER = 1 << 60


def lifetimes(instructions: list[Instruction], kept=()) -> dict[int, list]:
    """First and last use, by op index, of every root that needs a place.

    Parameters
    ----------
    instructions : list of Instruction
    kept : iterable of Row
        Rows that must survive the program.

    Returns
    -------
    dict
        Root row index -> ``[root, first, last]``. What is used in one of several branches lives
        as long as any of them runs.
    """
    lives = lifetimes_of_roots(instructions, Branches(instructions).spans)
    for row in kept:
        life = lives.get(row.root.index)
        if life is not None:
            life[2] = FOREVER
    return lives


def plan(
    instructions: list[Instruction],
    table: BufferTable,
    kept=(),
    name: str = "arena",
    reuse: bool = True,
    aliases: dict[int, Row] | None = None,
) -> Slot:
    """Give every unplaced root of `instructions` a place in a new arena.

    Parameters
    ----------
    instructions : list of Instruction
    table : BufferTable
    kept : iterable of Row
        Rows that must survive the program.
    name : str
        Name of the arena's slot.
    reuse : bool
        False gives each buffer its own memory (the debug mode).
    aliases : dict, optional
        Root row index -> root whose memory it takes over (see :func:`sdbr.program.passes.inplace`).

    Returns
    -------
    Slot
        The arena; its ``nbytes`` is the size.
    """
    arena = table.slot(ARENA, name=name)
    lives = lifetimes(instructions, kept)
    followers = _merge(lives, aliases or {}) if reuse else []
    if reuse:
        total = _place(list(lives.values()))
    else:
        total = 0
        for root, _, _ in lives.values():
            root.place = total
            total += _aligned(root)
    for root, _, _ in lives.values():
        root.slot = arena
    for follower, leader in followers:
        follower.slot = arena
        follower.place = leader.place
    arena.nbytes = total
    return arena


def _merge(lives: dict[int, list], aliases: dict[int, Row]) -> list[tuple[Row, Row]]:
    """Fold every aliased root into the one whose memory it takes over."""
    followers = []
    leaders: dict[int, Row] = {}
    for index, leader in aliases.items():
        if index not in lives:
            continue
        # Each chain is walked once: what leads it is remembered for all of its links.
        chain = [index]
        while leader.index in aliases:
            chain.append(leader.index)
            leader = leaders.get(leader.index) or aliases[leader.index]
        leaders.update(dict.fromkeys(chain, leader))
        root, first, last = lives.pop(index)
        life = lives[leader.index]
        life[1] = min(life[1], first)
        life[2] = max(life[2], last)
        followers.append((root, leader))
    return followers


def _aligned(root: Row) -> int:
    return max(-(-root.nbytes // ALIGNMENT) * ALIGNMENT, ALIGNMENT)


SMALL = 4096


def _place(lives: list[list]) -> int:
    big = [life for life in lives if life[0].nbytes > SMALL]
    small = [life for life in lives if life[0].nbytes <= SMALL]
    end = _place_by_size(big) if len(big) <= 2000 else _place_by_free_list(big, 0)
    return _place_by_free_list(small, end)


def _place_by_size(lives: list[list]) -> int:
    placed: list[tuple[int, int, int, int]] = []  # start, end, first, last; sorted
    total = 0
    for root, first, last in sorted(lives, key=lambda life: -life[0].nbytes):
        size = _aligned(root)
        at = 0
        for start, end, since, until in placed:
            if since > last or until < first:
                continue  # never alive at the same time
            if start - at >= size:
                break
            if end > at:
                at = end
        root.place = at
        insort(placed, (at, at + size, first, last))
        total = max(total, at + size)
    return total


def _place_by_free_list(lives: list[list], start: int) -> int:
    free: dict[int, list[int]] = {}
    ends: list[tuple[int, int, int]] = []
    top = start
    for root, first, last in sorted(lives, key=lambda life: life[1]):
        while ends and ends[0][0] < first:
            _, size, at = heapq.heappop(ends)
            free.setdefault(size, []).append(at)
        size = _aligned(root)
        holes = free.get(size)
        if holes:
            at = holes.pop()
        else:
            at = top
            top += size
        root.place = at
        heapq.heappush(ends, (last, size, at))
    return top


def check_overlaps(instructions: list[Instruction], kept=()) -> list[str]:
    """Pairs of arena rows that share bytes while both are alive; empty when the plan is right.

    Independent of how the plan was made: it looks at places and lifetimes only.
    """
    lives: dict[int, list] = {}
    branch = Branches(instructions).branch
    for i, instruction in enumerate(instructions):
        for row in [*instruction.ins, *instruction.outs]:
            root = row.root
            if root.slot is not None and root.slot.kind == ARENA:
                life = lives.setdefault(root.index, [root, i, i, set()])
                life[2] = i
                if branch[i] is not None:
                    life[3].add(branch[i])
    for row in kept:
        if row.root.index in lives:
            lives[row.root.index][2] = FOREVER
    problems = []
    items = sorted(lives.values(), key=lambda life: (life[0].slot.index, life[0].place))
    for i, (a, fa, la, in_a) in enumerate(items):
        for b, fb, lb, in_b in items[i + 1 :]:
            if b.slot is not a.slot or b.place >= a.place + a.nbytes:
                break
            if any(x[0] == y[0] and x[1] != y[1] for x in in_a for y in in_b):
                problems.append(f"{a!r} and {b!r} share memory in two branches of one fork")
            if max(fa, fb) == min(la, lb) and _takes_over(instructions[max(fa, fb)], a, b):
                continue
            if fa <= lb and fb <= la:
                problems.append(
                    f"{a!r} and {b!r} share memory while ops {max(fa, fb)} to {min(la, lb)} run"
                )
    return problems


def _takes_over(instruction: Instruction, a: Row, b: Row) -> bool:
    """Whether `instruction` may write an output over an input, and these are the two."""
    if a.place != b.place or a.nbytes != b.nbytes:
        return False
    pairs = [
        (instruction.outs[o].root, instruction.ins[k].root) for o, k in instruction.memory_sharing()
    ]
    return any((y is a and x is b) or (y is b and x is a) for y, x in pairs)
