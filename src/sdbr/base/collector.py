"""Python's garbage collector is off while a trace or a program is made, in whatever thread."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

from sdbr.base.forks import reentrant_lock


class _Collector:
    """Off from the first thread that wants it off to the last that is done."""

    def __init__(self) -> None:
        self._lock = reentrant_lock(after_fork=self._in_the_child)
        self._holders: list[int] = []
        self._was_on = False

    def hold(self) -> None:
        with self._lock:
            if not self._holders:
                self._was_on = gc.isenabled()
                gc.disable()
            self._holders.append(threading.get_ident())

    def release(self) -> None:
        with self._lock:
            self._holders.remove(threading.get_ident())
            self._settle()

    def _settle(self) -> None:
        if not self._holders and self._was_on:
            gc.enable()

    def _in_the_child(self, interrupted: bool) -> None:
        # Threads that do not exist in the child are never done.
        if self._holders:
            mine = threading.get_ident()
            self._holders = [holder for holder in self._holders if holder == mine]
            self._settle()


_collector = _Collector()


@contextlib.contextmanager
def collector_off() -> Iterator[None]:
    """Without the collector, which is switched back on as it was; may be nested.

    What is made here is many small objects that all stay, so that it would look for long and find
    nothing. And what it calls, ``gc.callbacks`` and finalizers, is no part of a call that is
    traced.
    """
    _collector.hold()
    try:
        yield
    finally:
        _collector.release()
