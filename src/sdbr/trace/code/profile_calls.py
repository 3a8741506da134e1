"""What compiled functions the traced code calls, seen by a profile function.

Names do not matter here: a bound method in a dict is seen as well as a function of a module. What
runs inside function nodes and in ``static_code`` is not looked at: it runs in every replay. Nor
are Chainer's own links, see `sdbr.trace.effects._own_forwards`.
Compiled code is not seen when compiled code calls it (``map(os.urandom, sizes)``, Cython).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from sdbr.trace.code._profile import CallWatch

#: ``chooser(function)`` gives ``handler(recorder, function)``, or None when calls do not matter.
CHOOSERS: list[Callable] = []


def chooses(chooser: Callable) -> Callable:
    """Let `chooser` decide about calls of every trace; a decorator.

    It is asked once for each compiled function, or method of a compiled class. The handler is
    called just before the function is, with the recorder and the function (``__self__`` of which
    is the object or the module); ``sys._getframe(1)`` in it is the frame of the caller.
    """
    CHOOSERS.append(chooser)
    return chooser


def _choose(function) -> Callable | None:
    handlers = [h for h in (chooser(function) for chooser in CHOOSERS) if h is not None]
    if len(handlers) < 2:
        return handlers[0] if handlers else None

    def all_of_them(recorder, function):
        for handler in handlers:
            handler(recorder, function)

    return all_of_them


@contextlib.contextmanager
def calls_seen(recorder) -> Iterator[None]:
    """Watch what the code of this thread calls.

    Parameters
    ----------
    recorder : Recorder
        Is told in its trace when somebody else profiles the thread, so that nothing is seen.
    """
    watch = CallWatch(recorder, _choose)
    if not watch.start():
        recorder.trace.unwatched.append("calls of compiled functions (another profiler is active)")
        yield
        return
    recorder.call_watch = watch
    try:
        yield
    finally:
        recorder.call_watch = None
        watch.stop()
