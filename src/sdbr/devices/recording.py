"""A stream records what is launched on it, and nobody disturbs that.

Whoever waits for a whole device breaks what any stream of it records: no other thread does so
meanwhile, and the collector lets nothing go for whose sake somebody would.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import threading
from collections.abc import Callable, Iterator

from sdbr.base.errors import DriverError

_RELAXED = 2  # what others free or load meanwhile breaks nothing

#: Held by who records, and by who waits for a whole device.
ONE_OF_BOTH = threading.RLock()


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def recorded(call: Callable[..., None], stream: ctypes.c_void_p) -> Iterator[ctypes.c_void_p]:
    """Record what is launched instead of running it.

    Parameters
    ----------
    call : callable
        `Driver.call`.
    stream : ctypes.c_void_p

    Yields
    ------
    ctypes.c_void_p
        Afterwards it is the handle of a graph, which is the caller's.
    """
    graph = ctypes.c_void_p()
    with ONE_OF_BOTH, _without_collector():
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
