"""Kernels dealt out to streams, where they wait for little that they need not wait for."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

#: Streams that record at once. A guess: more branches are hardly ever independent for long.
MOST = 4


@dataclasses.dataclass(frozen=True)
class Turn:
    """When a kernel comes.

    Attributes
    ----------
    lane : int
        Its stream.
    waits : tuple of int
        The kernels of other streams that it waits for.
    follows : bool
        Whether it waits for nothing but the kernel in front of it on its stream.
    """

    lane: int
    waits: tuple[int, ...] = ()
    follows: bool = False


def one_after_the_other(n: int) -> list[Turn]:
    """All on one stream."""
    return [Turn(0, (), k > 0) for k in range(n)]


def dealt_out(before: Sequence[Sequence[int]], most: int = MOST) -> list[Turn]:
    """The turns of kernels.

    Parameters
    ----------
    before : sequence of sequence of int
        For each kernel those that it waits for, see `dependences.waits`.
    most : int
        Number of streams.
    """
    behind: list[int] = []  # bit k: comes after kernel k, by what it waits for or by its stream
    last: list[int] = []  # of each lane
    turns: list[Turn] = []
    for who, of_it in enumerate(before):
        bits = 0
        for k in of_it:
            bits |= behind[k] | 1 << k
        lane = _lane(bits, of_it, last, most)
        if lane == len(last):
            last.append(-1)
        front = last[lane]
        others = tuple(k for k in of_it if turns[k].lane != lane)
        turns.append(Turn(lane, others, not others and front >= 0))
        if front >= 0:
            bits |= behind[front] | 1 << front
        behind.append(bits)
        last[lane] = who
    return turns


def _lane(bits: int, before: Sequence[int], last: Sequence[int], most: int) -> int:
    """That of a kernel that it waits for, one that is done by then, a new one, or the idlest."""
    if before:
        for k in reversed(before):
            if k in last:
                return last.index(k)
        for lane, k in enumerate(last):
            if bits >> k & 1:
                return lane
    elif not last:
        return 0
    if len(last) < most:
        return len(last)
    return min(range(len(last)), key=last.__getitem__)
