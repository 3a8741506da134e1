"""Who sees static calls from outside, and what runners ask of dictionaries and audits."""

from time import perf_counter as _clock

from sdbr.base.audit_share import share_now

# Called with (manager, start, seconds) after every static call and step; None while nobody asks.
cdef object _watcher = None


def watch_calls(watcher):
    """Let `watcher` see every static call and every whole step; None ends it.

    Parameters
    ----------
    watcher : callable or None
        ``watcher(manager, start, seconds)``: `start` by the clock of `time.perf_counter`.

    Returns
    -------
    callable or None
        The watcher before.
    """
    global _watcher
    before = _watcher
    _watcher = watcher
    return before


def call_watcher():
    """The callable that sees every static call, or None."""
    return _watcher


cdef double watched_since() except -1:
    """When a call begins, by the clock; 0 while nobody asks."""
    return 0 if _watcher is None else _clock()


cdef int tell(manager, double start) except -1:
    """Let the watcher know of a call that began then."""
    watcher = _watcher
    if watcher is not None:
        watcher(manager, start, _clock() - start)
    return 0


cdef double audit_share(manager, schedule) except? -1:
    """What audits of a schedule may cost now; the setting is among what a `CallSpec` compares."""
    if schedule.due is None or manager.audits.off:
        return 0
    return share_now()
