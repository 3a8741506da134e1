"""A call that is watched: its result, and what it has read from outside."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from sdbr.trace.watch._reads import Watch
from sdbr.trace.watch.reads import Reads


def watch(function: Callable, args: tuple = (), kwargs: dict | None = None) -> tuple[Any, Reads]:
    """Call a function, and see what it reads from outside of its arguments.

    Parameters
    ----------
    function : callable
    args : tuple
    kwargs : dict, optional

    Returns
    -------
    object, Reads
        Its result; what was read, whose ``check(args, kwargs)`` says whether that still holds.
    """
    kwargs = {} if kwargs is None else kwargs
    watched = Watch()
    reads = watched.reads
    watched.begin(function, args, kwargs)
    collects = gc.isenabled()
    gc.disable()
    reasons: list[str | None] = []
    try:
        reasons.append(watched.start())
        result = function(*args, **kwargs)
    finally:
        try:
            reasons.append(watched.stop())
        except Exception as error:
            reasons.append(f"the watch has failed: {type(error).__name__}: {error}")
        watched.end()
        if collects:
            gc.enable()
    reads.dynamic += [(reason, "") for reason in reasons if reason is not None]
    return result, reads
