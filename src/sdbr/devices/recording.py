"""A stream records what is launched on it, and nobody disturbs that.

Whoever waits for a whole device breaks what any stream of it records: no other thread does so
meanwhile, and the collector lets nothing go for whose sake somebody would.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator

from sdbr.base.collector import collector_off
from sdbr.base.errors import DriverError

_RELAXED = 2  # what others free or load meanwhile breaks nothing


@contextlib.contextmanager
def recorded(
    call: Callable[..., None], lock: threading.RLock, stream: ctypes.c_void_p
) -> Iterator[ctypes.c_void_p]:
    """Record what is launched instead of running it.

    Parameters
    ----------
    call : callable
        `Driver.call`.
    lock : threading.RLock
        Of the device, which whoever waits for it holds as well.
    stream : ctypes.c_void_p

    Yields
    ------
    ctypes.c_void_p
        Afterwards it is the handle of a graph, which is the caller's.
    """
    graph = ctypes.c_void_p()
    with lock, collector_off():
        call("cuStreamBeginCapture_v2", stream, _RELAXED)
        try:
            yield graph
        except BaseException:
            # Whatever happened: a stream that still records is of no use to anybody.
            with contextlib.suppress(DriverError):
                call("cuStreamEndCapture", stream, ctypes.byref(graph))
                call("cuGraphDestroy", graph)
            raise
        call("cuStreamEndCapture", stream, ctypes.byref(graph))
