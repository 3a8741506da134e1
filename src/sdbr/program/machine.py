"""What a program is made for; the backend that will run it says so before it is built."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Machine:
    """What passes may know of the backend that will run the program.

    The numbers are those of a processor, unless a backend says otherwise.

    Attributes
    ----------
    requests : tuple of (str, callable)
        Passes of the backend, which run after all others, before memory is planned; with their
        names. One that has nothing to do returns the very list that it was given.
    cache : int
        Bytes of a cache of the second level: so much more or less memory that is alive is no
        matter.
    shortest_fused : int
        Elements from which elementwise ops are put together. Fewer are in the cache anyway, and
        single ops cost a little less (measured).
    most_held : int
        Bytes held from a forward to its backward from which memory counts for more than time.
    lacks : frozenset of str
        Ops that it cannot run: functions that consist of such are Python ops.
    draws_once : bool
        Whether its only draws are those of a number of single precision for each element.
    widens : bool
        Whether functions in float16 compute in float32. On a GPU they are Chainer's own code: its
        libraries multiply halves many times as fast as float32.
    """

    requests: tuple[tuple[str, Callable], ...] = ()
    cache: int = 1 << 20
    shortest_fused: int = 2048
    most_held: int = 128 << 20
    lacks: frozenset[str] = frozenset()
    draws_once: bool = False
    widens: bool = True

    def is_like(self, other: Machine) -> bool:
        """Whether passes are told the same of both; what they ask for may differ."""
        return dataclasses.replace(self, requests=other.requests) == other
