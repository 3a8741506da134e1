"""A file takes the place of another one in one go, and the system writes nothing out for it."""

from __future__ import annotations

import ctypes
import functools
import os
import stat
from collections.abc import Callable

_HERE = -100  # AT_FDCWD: paths are those of the working directory
_EXCHANGE = 2  # RENAME_EXCHANGE


@functools.cache
def _renameat2() -> Callable | None:
    """The function of the C library, where it has one."""
    found = getattr(ctypes.CDLL(None), "renameat2", None) if os.name == "posix" else None
    if found is not None:
        path = ctypes.c_char_p
        found.argtypes = [ctypes.c_int, path, ctypes.c_int, path, ctypes.c_uint]
    return found


def put_in_place(path: str, of: str) -> None:
    """What ``os.replace(path, of)`` does.

    Where a file takes the place of another one, ext4 writes it to the disk at once, which takes
    longer than a small step; not where the two change places. So a log is on the disk when the
    system writes it anyway.

    Raises
    ------
    OSError
        As for `os.replace`.
    """
    rename = _renameat2()
    if rename is not None and _is_file(of):
        refused = rename(_HERE, os.fsencode(path), _HERE, os.fsencode(of), _EXCHANGE)
        if not refused:
            return os.unlink(path)
    return os.replace(path, of)


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False
