"""Calls that are traced though a trace function is set, which keeps others from watching."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

from sdbr.trace.watch.watching import watching


class _Unseen(watching):
    """As if the code read nothing outside of its arguments."""

    def __enter__(self):
        watched = super().__enter__()
        watched.reads.unseen = None
        return watched


@contextlib.contextmanager
def traced_all_the_same() -> Iterator[None]:
    """For tests of the lines that a trace runs; the calls must read nothing outside."""
    with (
        mock.patch("sdbr.call.trace_call.obstacle", lambda: None),
        mock.patch("sdbr.trace.recorder.watching", _Unseen),
    ):
        yield
