"""Locks that are free in a forked child, whatever other threads were doing in the parent."""

from __future__ import annotations

import os
import threading
import weakref

_locks: weakref.WeakSet = weakref.WeakSet()


def reentrant_lock() -> threading.RLock:
    """A `threading.RLock`; in a forked child it is free unless the forking thread itself has it."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _free_those_of_other_threads() -> None:
    # The threads that hold them do not exist in the child, so nobody would ever release them.
    for lock in list(_locks):
        if not lock._is_owned():
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_those_of_other_threads)
