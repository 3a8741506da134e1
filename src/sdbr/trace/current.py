"""The recorder of each thread that traces a call now."""

from __future__ import annotations

import threading

_local = threading.local()
_tracing: set[int] = set()
#: Its only item: the threads that trace a call now; the compiled path looks here first.
TRACES_UNDER_WAY = [_tracing]


def current():
    """The recorder of this thread, or None."""
    return getattr(_local, "recorder", None)


def set_current(recorder) -> None:
    """Make `recorder` (or None) the recorder of this thread."""
    # A signal may come between: never a recorder that is not counted.
    if recorder is not None:
        _tracing.add(threading.get_ident())
        _local.recorder = recorder
    else:
        _local.recorder = None
        _tracing.discard(threading.get_ident())
