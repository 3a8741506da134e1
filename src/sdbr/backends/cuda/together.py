"""Ops that are launched as one: updates of many parameters by one rule, copies, what rides."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

from sdbr.backends.cuda.launch import Launch, Launches
from sdbr.backends.cuda.team import by_dtype
from sdbr.base.dtypes import DTYPES
from sdbr.program.program import Program

import numpy as np

#: Elements of one op that a team does at a time, as in kernels/device/places.cuh.
PIECE = 1024
#: Elements from which ops of a kind are a launch of their own, which need not wait for what all
#: others need. Adam moves 28 bytes for each: one launch more is a hundredth of what they take.
LARGE = 1 << 24


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


def place(program: Program, r: int) -> Place:
    """The bytes of a row, from the first to the last."""
    row = program.rows[r]
    low = high = int(row["offset"])
    for length, step in zip(program.row_shape(r), program.row_strides(r), strict=True):
        low, high = low + min(0, (length - 1) * step), high + max(0, (length - 1) * step)
    return int(row["slot"]), low, high + DTYPES[row["type"]].itemsize


def units(
    part: Iterable[int],
    launches: Sequence[Launches],
    places: Callable[[int], tuple[list[Place], list[Place]]],
    joint: Callable[[Sequence[int]], Launch | None],
    lasting: frozenset[int],
) -> Iterator[Unit]:
    """The units of a stretch of ops that have kernels.

    Neighbours of one kind are one, as long as they are not too large, and so are those for which
    there is a launch of all.

    Parameters
    ----------
    part : iterable of int
    launches : sequence of Launches
        Of all ops of the program.
    places : callable
        What an op reads and what it writes. What one writes no other of the same kind may touch in
        the same unit, for nobody says which comes first.
    joint : callable
        The launch of neighbours, or None.
    lasting : frozenset of int
        Ops that write what outlives the run. Arrays of the user's may be one another's: these are
        together with others only as updates, whose parameters are not.
    """
    group: list[int] = []
    as_one: Launch | None = None  # of the group, where they are not of one kind
    read: list[Place] = []
    written: list[Place] = []

    def unit() -> Unit:
        if as_one is None and len(group) == 1:
            return Unit((group[0],), launches[group[0]])
        return Unit(tuple(group), (as_one or _together([launches[i][0] for i in group]),))

    for i in part:
        reads, writes = places(i)
        if group:
            found = joint([*group, i])
            if found is None and (
                as_one is not None
                or not _are_alike(launches, group, i)
                or (not launches[i][0].is_update and not lasting.isdisjoint([group[0], i]))
                or meet(writes, read + written)
                or meet(reads, written)
            ):
                yield unit()
                group, read, written = [], [], []
            as_one = found
        group.append(i)
        read += reads
        written += writes
    if group:
        yield unit()


def _are_alike(launches: Sequence[Launches], group: list[int], i: int) -> bool:
    first, other = launches[group[0]][0], launches[i][0]
    if not first.together or first.kernel != other.kernel:
        return False
    return sum(launches[k][0].elements for k in group) < LARGE


def meet(some: list[Place], others: list[Place]) -> bool:
    """Whether some bytes of the ones are bytes of the others."""
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in some for b in others)


def _together(launches: list[Launch]) -> Launch:
    first, sizes = launches[0], tuple(launch.elements for launch in launches)
    teams = sum(-(-size // PIECE) for size in sizes)
    if first.is_update:
        return by_dtype(first.together, first.section, sizes, teams, is_listed=True, is_update=True)
    kind = first.kernel.rpartition("_")[2]
    text = f"SDBR_{first.together.upper()}({kind})"
    ints = _in_pieces(sizes, [launch.ints for launch in launches])
    return Launch(f"{first.together}_{kind}", text, ints, teams, is_listed=True)


def _in_pieces(sizes: Sequence[int], ints: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The list of integers of ops that have some each, see ``kernels/device/data.cuh``."""
    pieces = _pieces(sizes)
    at = 2 + len(sizes) + 2 * len(pieces)
    places = [at + n for n in itertools.accumulate(map(len, ints), initial=0)]
    whose, begins = [k for k, _ in pieces], [begin for _, begin in pieces]
    numbers = itertools.chain.from_iterable(ints)
    return (len(sizes), len(pieces), *places[:-1], *whose, *begins, *numbers)


def _pieces(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Which op each piece is of, and where in it it begins."""
    return [(k, begin) for k, size in enumerate(sizes) for begin in range(0, size, PIECE)]


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
    pieces = _pieces(launch.ints)
    whose, begins = [k for k, _ in pieces], [begin for _, begin in pieces]
    return np.array(
        [len(launch.ints), len(pieces), *launch.ints, *floats, *whose, *begins], np.int64
    )
