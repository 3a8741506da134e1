"""Launches of kernels that are team functions by dtype."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cuda.launch import THREADS, Launch


def by_dtype(name: str, dtype: str, ints: Sequence[int], teams: int, **more) -> Launch:
    """The launch of ``<name>_team`` for a dtype, ``'f4'`` or ``'f8'``."""
    text = f"SDBR_TEAM_KERNEL({name})"
    return Launch(f"{name}_{dtype}", text, tuple(ints), teams, dtype, **more)


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
