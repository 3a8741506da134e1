"""Locks that are free in a forked child, whatever other threads were doing in the parent."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable

_locks: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def reentrant_lock(after_fork: Callable[[bool], None] | None = None) -> threading.RLock:
    """A `threading.RLock`; in a forked child it is free unless the forking thread itself has it.

    Parameters
    ----------
    after_fork : bound method, optional
        Called in a forked child, while its object lives, with whether another thread had the
        lock: what it guards may be half changed then.
    """
    lock = threading.RLock()
    # No WeakMethod: what it leaves behind fails, with a message, when the interpreter ends.
    _locks[lock] = after_fork and (weakref.ref(after_fork.__self__), after_fork.__func__)
    return lock


def _in_the_child() -> None:
    # The threads that hold locks do not exist in the child, so nobody would ever release them.
    for lock, method in list(_locks.items()):
        mine = lock._is_owned()
        free = mine or lock.acquire(blocking=False)
        if not free:
            lock._at_fork_reinit()
        elif not mine:
            lock.release()
        owner = method and method[0]()
        if owner is not None:
            method[1](owner, not free)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_the_child)
