"""Other threads and processes in tests: every wait has a limit, and says for what it was in vain.

Limits are generous, as the machine may be busy with something else: they make a failure of what
would wait for ever, and say nothing of how long it takes.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

LIMIT = 60.0  # seconds


def start(target: Callable, *args) -> threading.Thread:
    """A thread that runs; one that hangs does not keep the process from its end."""
    thread = threading.Thread(target=target, args=args, daemon=True)
    thread.start()
    return thread


def join(*threads: threading.Thread, limit: float = LIMIT) -> None:
    """Wait until threads are done."""
    end = time.monotonic() + limit
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    left = [thread.name for thread in threads if thread.is_alive()]
    assert not left, f"after {limit:g} s still running: {', '.join(left)}"


def wait(event: threading.Event, what: str, limit: float = LIMIT) -> None:
    """Wait for an event, which stands for `what`."""
    assert event.wait(limit), f"waited {limit:g} s in vain: {what}"


def attempts(what: str, limit: float = LIMIT) -> Iterator[int]:
    """0, 1, 2 and so on: for loops that are left as soon as `what` is so."""
    end = time.monotonic() + limit
    for k in itertools.count():
        assert time.monotonic() < end, f"after {limit:g} s and {k} attempts not yet: {what}"
        yield k


def in_threads(n: int, work: Callable[[int], object], limit: float = LIMIT) -> list:
    """Run ``work(i)`` in `n` threads; what each returned, or the first error."""
    results: list = [None] * n
    errors: list = []

    def run(i):
        try:
            results[i] = work(i)
        except BaseException as error:
            errors.append(error)

    try:
        join(*[start(run, i) for i in range(n)], limit=limit)
    except AssertionError as stuck:  # others may wait for one that has failed
        raise errors[0] if errors else stuck from None
    if errors:
        raise errors[0]
    return results


@contextlib.contextmanager
def switch_interval(seconds: float):
    """How long a thread runs before another one that wants to may."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def gets_in(busy: Callable[[], object], rounds: int | None = None) -> bool:
    """Whether another thread gets in while `busy` runs, again and again.

    It is never asked to let others run, so they do only where it lets go of the interpreter lock.

    Parameters
    ----------
    rounds : int, optional
        So often; without it until somebody has got in, or `LIMIT` is over.
    """
    ran: list = []
    go = threading.Lock()
    go.acquire()

    def wait_and_run():
        go.acquire()
        ran.append(True)

    end = time.monotonic() + LIMIT
    with switch_interval(1000):
        # It has the lock of the interpreter from its begin on until it waits for the other one.
        thread = start(wait_and_run)
        go.release()
        for k in itertools.count():
            if ran or k == rounds or time.monotonic() > end:
                break
            busy()
        got_in = bool(ran)
    join(thread)
    return got_in


def exit_code(pid: int, limit: float = 2 * LIMIT) -> int:
    """How a child has ended; one that does not is killed."""
    for _ in range(int(limit / 0.01)):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError(f"the child {pid} was still running after {limit:g} s")
