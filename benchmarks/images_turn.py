"""How a turn of :mod:`benchmarks.images` is timed; knows no framework."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Batches before the clock starts: workers start, memory is found.
_BEFORE = 6


def _of_workers() -> float:
    """Seconds that the children of this process have been on a processor."""
    nanoseconds = 0
    for child in multiprocessing.active_children():
        for file in Path(f"/proc/{child.pid}/task").glob("*/schedstat"):
            nanoseconds += int(file.read_text().split()[0])
    return nanoseconds / 1e9


def timed(next_batch: Callable[[], Any], n: int) -> tuple[float, float, float]:
    """Seconds of a batch; of the processor for it: of this process, and of workers as well."""
    for _ in range(_BEFORE):
        next_batch()
    start, own, theirs = time.perf_counter(), time.process_time(), _of_workers()
    for _ in range(n):
        next_batch()
    wall, own = time.perf_counter() - start, time.process_time() - own
    return wall / n, own / n, (own + _of_workers() - theirs) / n
