"""Which random numbers a program uses: those of define-by-run, or others that kernels make."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sdbr.backends.cuda.launch import Launches
from sdbr.backends.cuda.words import Words
from sdbr.devices.choices import is_philox


class Draws:
    """What the random ops of a program read.

    Parameters
    ----------
    launches : sequence of Launches or None
        Of each op.

    Attributes
    ----------
    philox : bool
    counts : dict
        Op -> how many numbers it takes.
    nbytes : int
        What they need in memory.
    places : dict
        Op -> the address of what it reads.
    room : object
        The memory that drawn numbers lie in: `address`, `nbytes`.
    is_fed : bool
        Whether kernels that make numbers are given some instead, for they are to be compared.
    """

    def __init__(self, launches: Sequence[Launches | None]) -> None:
        self.philox = is_philox()
        counts = [sum(launch.draws for launch in of_op or ()) for of_op in launches]
        self.counts = {i: n for i, n in enumerate(counts) if n}
        self.nbytes = 0 if self.philox else 8 * sum(self.counts.values())
        self.places: dict[int, int] = {}
        self.room: Any = None
        self.is_fed = False

    def __bool__(self) -> bool:
        return bool(self.counts)

    @property
    def are_made(self) -> bool:
        """Whether kernels make numbers."""
        return self.philox and bool(self.counts) and not self.is_fed

    def lie(self, room: Any, offset: int, words: Words) -> None:
        """Let the numbers lie in `room`; kernels that make them read the words."""
        self.room = room
        begin = room.address + offset
        for i, n in self.counts.items():
            self.places[i] = words.address(words.random) if self.philox else begin
            begin += 8 * n

    @contextlib.contextmanager
    def fed(self, allocate: Callable[[int], Any]) -> Iterator[None]:
        """Draw numbers for kernels that make them otherwise."""
        before = self.places, self.room
        self.room = allocate(8 * sum(self.counts.values()))
        starts = itertools.accumulate(self.counts.values(), initial=0)
        self.places = {i: self.room.address + 8 * n for i, n in zip(self.counts, starts)}  # noqa: B905
        self.is_fed = True
        try:
            yield
        finally:
            self.places, self.room = before
            self.is_fed = False

    def of_part(self, part: range) -> list[tuple[int, int, int]]:
        """The ops of a part that draw: which, how many numbers, and where to."""
        return [(i, self.counts[i], self.places[i]) for i in part if i in self.counts]
