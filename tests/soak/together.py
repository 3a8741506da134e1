"""Several threads at once, switched as often as the interpreter can."""

from __future__ import annotations

import contextlib
import faulthandler
import sys
import threading
from collections.abc import Callable

LIMIT = 120  # seconds until a deadlock prints all stacks and ends the process


@contextlib.contextmanager
def watched(limit: float = LIMIT):
    """A deadlock inside prints the stacks of all threads and ends the process."""
    faulthandler.dump_traceback_later(limit, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


@contextlib.contextmanager
def switch_interval(seconds: float):
    """How long a thread runs before another one that wants to may."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


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
    barrier = threading.Barrier(n)
    results: list = [None] * n
    errors: list = []

    def run(i):
        try:
            barrier.wait()
            results[i] = work(i)
        except BaseException as error:
            errors.append(error)

    with watched(), switch_interval(interval):
        threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    return results
