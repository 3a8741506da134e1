"""Several threads at once, switched as often as the interpreter can."""

from __future__ import annotations

import contextlib
import faulthandler
import sys
import threading
from collections.abc import Callable

from tests.harness.threads import in_threads, switch_interval

JOINED = 120  # seconds until threads that hang fail a test
LIMIT = 180  # and until a deadlock that holds the interpreter lock, too, ends the process


@contextlib.contextmanager
def watched(limit: float = LIMIT):
    """A deadlock inside prints the stacks of all threads and ends the process."""
    faulthandler.dump_traceback_later(limit, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def together(n: int, work: Callable[[int], object], interval: float = 1e-6) -> list:
    """Run ``work(i)`` in `n` threads that start at once.

    Returns
    -------
    list
        What each returned.

    Raises
    ------
    BaseException
        The first error of a thread.
    """
    barrier = threading.Barrier(n, timeout=JOINED)

    def run(i):
        barrier.wait()
        return work(i)

    with watched(), switch_interval(interval):
        return in_threads(n, run, JOINED)
