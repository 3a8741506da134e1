"""Ops that are launched as one: updates of many parameters by one rule, products with sums."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence

from sdbr.backends.cuda.launch import Launch, Launches
from sdbr.backends.cuda.team import by_dtype

import numpy as np

PIECE = (
    1024  # elements of one parameter that a team does at a time; as in kernels/device/update.cuh
)


@dataclasses.dataclass(frozen=True)
class Unit:
    """What is launched for one op, or for several.

    Attributes
    ----------
    ops : tuple of int
        In the order of the program.
    launches : tuple of Launch
        One after the other.
    """

    ops: tuple[int, ...]
    launches: Launches


#: Bytes of a slot: its number, from, to.
Place = tuple[int, int, int]


def units(
    part: Iterable[int],
    launches: Sequence[Launches],
    places: Callable[[int], tuple[list[Place], list[Place]]],
    rides: Callable[[int, int], Launch | None],
) -> Iterator[Unit]:
    """The units of a stretch of ops that have kernels.

    Neighbours that update alike are one, and so are two for which there is a launch of both.

    Parameters
    ----------
    part : iterable of int
    launches : sequence of Launches
        Of all ops of the program.
    places : callable
        What an op reads and what it writes. What one writes no other of the same unit may touch,
        for nobody says which comes first.
    rides : callable
        The launch of two neighbours, or None.
    """
    group: list[int] = []
    read: list[Place] = []
    written: list[Place] = []

    def unit() -> Unit:
        ops = tuple(group)
        if len(ops) == 1:
            return Unit(ops, launches[ops[0]])
        both = rides(*ops) if len(ops) == 2 else None
        return Unit(ops, (both or _as_one([launches[i][0] for i in ops]),))

    def joins(i: int) -> bool:
        first = launches[i][0]
        if first.is_update and first.kernel == launches[group[0]][0].kernel:
            return True
        return len(group) == 1 and rides(group[0], i) is not None

    for i in part:
        reads, writes = places(i)
        if group and (not joins(i) or _meet(writes, read + written) or _meet(reads, written)):
            yield unit()
            group, read, written = [], [], []
        group.append(i)
        read += reads
        written += writes
    if group:
        yield unit()


def _meet(some: list[Place], others: list[Place]) -> bool:
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in some for b in others)


def _as_one(updates: list[Launch]) -> Launch:
    name, dtype = updates[0].kernel[:-3], updates[0].section
    sizes = tuple(launch.ints[0] for launch in updates)
    teams = sum(-(-size // PIECE) for size in sizes)
    return by_dtype(f"{name}_together", dtype, sizes, teams, is_listed=True, is_update=True)


def listed(launch: Launch, floats: Sequence[int]) -> np.ndarray:
    """The list of integers of a launch that has lists.

    Parameters
    ----------
    launch : Launch
    floats : sequence of int
        Addresses of the float attributes of its ops.
    """
    if not launch.is_update:
        return np.array(launch.ints, np.int64)
    pieces = [(k, begin) for k, size in enumerate(launch.ints) for begin in range(0, size, PIECE)]
    whose, begins = zip(*pieces, strict=True) if pieces else ((), ())
    return np.array(
        [len(launch.ints), len(pieces), *launch.ints, *floats, *whose, *begins], np.int64
    )
