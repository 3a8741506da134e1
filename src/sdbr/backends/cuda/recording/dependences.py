"""What has to come before what among the kernels of a program: by the memory that they touch.

It is looked at as it was planned. Whoever reads waits for who has written there before, and whoever
writes for who has read or written.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Iterable, Sequence

#: Memory: a space of addresses, from, to. Spaces do not meet.
Range = tuple[object, int, int]

EVERYWHERE = (0, 1 << 64)


@dataclasses.dataclass
class Uses:
    """What a kernel touches.

    Attributes
    ----------
    reads, writes : list of Range
    """

    reads: list[Range] = dataclasses.field(default_factory=list)
    writes: list[Range] = dataclasses.field(default_factory=list)


class _Space:
    """Who wrote to each address last, and who has read there since."""

    def __init__(self) -> None:
        self.starts, self.writers, self.readers = [0], [-1], [set()]

    def _cut(self, at: int) -> int:
        """The piece that begins there; what was one piece is two from now on."""
        k = bisect_right(self.starts, at) - 1
        if self.starts[k] == at:
            return k
        self.starts.insert(k + 1, at)
        self.writers.insert(k + 1, self.writers[k])
        self.readers.insert(k + 1, set(self.readers[k]))
        return k + 1

    def read(self, who: int, low: int, high: int, found: set[int]) -> None:
        first = self._cut(low)
        for k in range(first, self._cut(high)):
            found.add(self.writers[k])
            self.readers[k].add(who)

    def write(self, who: int, low: int, high: int, found: set[int]) -> None:
        first = self._cut(low)
        end = self._cut(high)
        found.update(self.writers[first:end], *self.readers[first:end])
        self.starts[first:end] = [low]
        self.writers[first:end] = [who]
        self.readers[first:end] = [set()]


def waits(uses: Sequence[Uses]) -> list[list[int]]:
    """For each kernel those before it that it has to wait for, in order.

    What they wait for themselves is left out.
    """
    spaces: dict[object, _Space] = {}
    found: list[set[int]] = []
    for who, use in enumerate(uses):
        before: set[int] = set()
        for space, low, high in _some(use.reads):
            spaces.setdefault(space, _Space()).read(who, low, high, before)
        for space, low, high in _some(use.writes):
            spaces.setdefault(space, _Space()).write(who, low, high, before)
        found.append(before - {-1, who})
    return _without_detours(found)


def _some(ranges: Iterable[Range]) -> Iterable[Range]:
    return ((space, low, high) for space, low, high in ranges if low < high)


def _without_detours(found: Sequence[set[int]]) -> list[list[int]]:
    behind: list[int] = []  # bit k: comes after kernel k
    result = []
    for before in found:
        left, bits = [], 0
        for k in sorted(before, reverse=True):
            if not bits >> k & 1:
                left.append(k)
            bits |= behind[k] | 1 << k
        behind.append(bits)
        result.append(left[::-1])
    return result
