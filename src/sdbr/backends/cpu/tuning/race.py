"""Runs kernels that compute the same against each other, on arrays of their own."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu._kernels import kernel_seconds

import numpy as np

#: Seconds that a kernel is given per turn, runs per turn, turns.
TURN, RUNS, TURNS = 0.004, 4, 3
#: Seconds after which no further turn begins.
ENOUGH = 0.02
#: A kernel that is this much slower than the best in its first turn takes no further part.
OUT = 1.5


def operands(specs: Sequence[tuple[tuple[int, ...], np.dtype]]) -> list[np.ndarray]:
    """Arrays filled with small numbers: memory that is there, and no denormals."""
    arrays = []
    for shape, dtype in specs:
        array = np.empty(shape, dtype)
        flat = array.reshape(-1)
        pattern = (np.arange(1021) % 13 - 6).astype(dtype)
        for start in range(0, flat.size, pattern.size):
            part = flat[start : start + pattern.size]
            part[:] = pattern[: part.size]
        arrays.append(array)
    return arrays


def race(
    kernels: dict[str, tuple[str, Sequence[int]]], arrays: list, threads: int
) -> dict[str, float]:
    """The best time of each kernel.

    Parameters
    ----------
    kernels : dict
        Way -> name of the kernel and its integers.
    arrays : list of numpy.ndarray
        Its operands; outputs are written.
    threads : int
        That a kernel may use; a single one is timed by its own clock.

    Returns
    -------
    dict
        Way -> seconds.
    """
    best = {}
    for way, (kernel, ints) in kernels.items():
        best[way] = min(kernel_seconds(kernel, ints, arrays, TURN, RUNS, threads == 1))
    limit = OUT * min(best.values())
    left = [way for way in kernels if best[way] <= limit]
    if len(left) > 1:
        # Turn by turn, so that a slow moment of the machine meets all of them.
        spent = 0.0
        for _ in range(TURNS):
            if spent > ENOUGH:
                break
            for way in left:
                kernel, ints = kernels[way]
                seconds = kernel_seconds(kernel, ints, arrays, TURN, RUNS, threads == 1)
                best[way] = min(best[way], *seconds)
                spent += sum(seconds)
    return best
