"""Times of work on a stream."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from sdbr.devices.driver import Stream

ROUNDS = 7  # of which the median counts


def timed(launch: Callable[[], object], stream: Stream, n: int) -> tuple[float, float]:
    """Launch something `n` times, in rounds; the first one is not counted.

    Returns
    -------
    float, float
        Seconds for each: of this thread on a processor, and from one to the next when nobody
        waits in between.
    """
    processor, between = [], []
    for _ in range(1 + ROUNDS):
        stream.synchronize()
        start, used = time.perf_counter(), time.thread_time()
        for _ in range(n):
            launch()
        used = time.thread_time() - used
        stream.synchronize()
        processor.append(used / n)
        between.append((time.perf_counter() - start) / n)
    return statistics.median(processor[1:]), statistics.median(between[1:])


def in_microseconds(launch: Callable[[], object], stream: Stream, n: int) -> dict[str, float]:
    """The same under their names, as they are written."""
    processor, between = timed(launch, stream, n)
    return {"processor_us": 1e6 * processor, "between_us": 1e6 * between}


def in_graph(work: Callable[[Stream], object], stream: Stream, nodes: int, launches: int) -> float:
    """Seconds of something that a graph does `nodes` times, one after the other."""
    with stream.capture() as made:
        for _ in range(nodes):
            work(stream)
    return timed(lambda: made[0].launch(stream), stream, launches)[1] / nodes
