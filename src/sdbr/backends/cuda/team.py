"""Launches of kernels that are team functions by dtype."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cuda.launch import THREADS, Launch

#: Kernels that ask which team comes last, and of these those that keep rows in scratch memory.
COUNTED = frozenset({
    "accuracy", "cross_entropy", "mean_absolute_error", "mean_squared_error",
    "sigmoid_cross_entropy",
})  # fmt: skip
ROOMY = frozenset({"cross_entropy_roomy"})
#: Teams of a sum over everything at most, and elements that a thread has of it at least. Not
#: measured: two for each multiprocessor of an H200, each with some loads under way.
_SUM_TEAMS, _SUM_ELEMENTS = 264, 8


def macro(name: str) -> str:
    """What makes a kernel of a team function: see ``kernels/device/families.cuh``."""
    if name in ROOMY:
        return "SDBR_ROOMY_KERNEL"
    return "SDBR_COUNTED_KERNEL" if name in COUNTED else "SDBR_TEAM_KERNEL"


def by_dtype(name: str, dtype: str, ints: Sequence[int], teams: int, **more) -> Launch:
    """The launch of ``<name>_team`` for a dtype, ``'f4'`` or ``'f8'``."""
    text = f"{macro(name)}({name})"
    return Launch(f"{name}_{dtype}", text, tuple(ints), teams, dtype, **more)


def totalled(name: str, dtype: str, ints: Sequence[int], teams: int, sums: int, **more) -> Launch:
    """The same of a kernel that adds up `sums` numbers of all its teams."""
    launch = by_dtype(name, dtype, ints, teams, **more)
    return by_dtype(name, dtype, ints, teams, work=1 + sums * launch.grid, **more)


def teams_for_sum(elements: int) -> int:
    """How many teams add up so many elements."""
    return min(_SUM_TEAMS, -(-elements // (_SUM_ELEMENTS * THREADS)))


def rows_at_a_time(rows: int, n: int, inner: int) -> int:
    """How many of `rows` rows of `n` elements a team takes at once.

    As many as there are elements side by side in memory, so that its threads read those; more where
    rows are too short for that many threads.
    """
    least = max(1, THREADS // max(1, n))
    lanes = 1
    while lanes < THREADS and lanes < rows and (lanes < min(inner, 32) or lanes < least):
        lanes *= 2
    return lanes
