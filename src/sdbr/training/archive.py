"""Archives of arrays, as ``numpy.savez`` makes them: written at once or not at all, read safely."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import pickle
import re
import secrets
import stat
import zipfile
from collections.abc import Callable, Iterator
from typing import IO

from sdbr.base.errors import SnapshotError

import numpy as np
from numpy.lib import format as npy

#: What NumPy pickles of None: an array of objects without dimensions.
_OF_NONE = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("_codecs", "encode"),
}


#: To open a folder that may not be read.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY)


class _NoneOnly(pickle.Unpickler):
    """Unpickles nothing that could run code."""

    def find_class(self, module: str, name: str):
        if (module, name) not in _OF_NONE:
            raise pickle.UnpicklingError(f"{module}.{name}")
        return super().find_class(module, name)


def read(file: str | os.PathLike | IO[bytes]) -> dict[str, np.ndarray]:
    """All arrays of an archive, by name; checksums are compared on the way.

    Raises
    ------
    SnapshotError
        If it is no archive, is not complete, or holds objects other than None.
    OSError
        If the file cannot be opened.
    """
    if not isinstance(file, (str, os.PathLike)):
        return _arrays(file, "the file")
    with open(file, "rb") as stream:
        return _arrays(stream, os.fspath(file))


def _arrays(stream: IO[bytes], name: str) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(stream) as archive:
            return {
                member.removesuffix(".npy"): _array(archive.read(member), member, name)
                for member in archive.namelist()
            }
    except SnapshotError:
        raise
    except Exception as error:  # what a damaged archive leads to, `zipfile` does not say
        raise SnapshotError(f"{name} is no complete archive of arrays: {error}") from error


def _array(data: bytes, member: str, name: str) -> np.ndarray:
    stream = io.BytesIO(data)
    key = member.removesuffix(".npy")
    try:
        version = npy.read_magic(stream)
        read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        shape, _, dtype = read_header[version](stream)
        if not dtype.hasobject:
            stream.seek(0)
            return npy.read_array(stream, allow_pickle=False)
        found = _NoneOnly(stream).load() if shape == () else ...
        if isinstance(found, np.ndarray) and found.shape == () and found[()] is None:
            return found
    except pickle.UnpicklingError as error:
        text = f"{name}: {key!r} is a pickled object ({error}), which could run code: only arrays"
        raise SnapshotError(f"{text} and None are read", key=key, found=str(error)) from error
    except (ValueError, KeyError, EOFError) as error:
        raise SnapshotError(f"{name}: {key!r} is no array: {error}", key=key) from error
    raise SnapshotError(
        f"{name}: {key!r} is an array of objects: only arrays of numbers, text and None are read",
        key=key,
        found=f"object{list(shape)}",
    )


@contextlib.contextmanager
def _replacing(path: str) -> Iterator[IO[bytes]]:
    """A file to write; it takes the place of `path` in one go, or leaves nothing behind."""
    folder, name = os.path.split(path)
    prefix = f".sdbr-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}."
    _remove_stale(folder, prefix)
    temporary = os.path.join(folder, f"{prefix}{os.getpid()}.{secrets.token_hex(4)}.tmp")
    file = _open(folder, temporary)
    is_unnamed = not os.path.exists(temporary)
    try:
        with file:
            yield file
            file.flush()
            if os.path.exists(path):
                os.fchmod(file.fileno(), stat.S_IMODE(os.stat(path).st_mode))
            os.fsync(file.fileno())
            if is_unnamed:
                _name(file, folder, temporary)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync(folder)


def _open(folder: str, temporary: str) -> IO[bytes]:
    """A file without a name where the system has such: it goes when the process dies."""
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            return os.fdopen(os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666), "w+b")
    return open(temporary, "w+b")


def _name(file: IO[bytes], folder: str, path: str) -> None:
    """Give a file without a name one."""
    handle = os.open(folder, _FOLDER)
    try:
        # Symbolic links are followed only with the handle of a folder, which is not looked at.
        os.link(f"/proc/self/fd/{file.fileno()}", path, src_dir_fd=handle)
    finally:
        os.close(handle)


def _remove_stale(folder: str, prefix: str) -> None:
    """What processes that were killed have left, where the folder can be read."""
    pattern = re.compile(re.escape(prefix) + r"(\d{1,10})\.[0-9a-f]{8}\.tmp")
    with contextlib.suppress(PermissionError):
        for entry in os.listdir(folder):
            match = pattern.fullmatch(entry)
            if match and not _is_alive(int(match[1])):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(folder, entry))


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it is another user's, or there is no such number
        pass
    return True


def _sync(folder: str) -> None:
    with contextlib.suppress(PermissionError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write(path: str | os.PathLike, save: Callable[[IO[bytes]], None]) -> None:
    """Let `save` write a file that takes the place of `path` once it is complete and on the disk.

    Parameters
    ----------
    path : str or path
        A symbolic link stays one, its target is replaced; the mode of a file stays. What is no
        file (a pipe) is written to as it is.
    save : callable
        ``save(file)``.

    Raises
    ------
    PermissionError
        If the file may not be written to, or nothing may be made in its folder.
    """
    path = os.path.realpath(path)
    exists = os.path.lexists(path)
    if exists and not os.path.isfile(path):
        with open(path, "wb") as file:
            save(file)
        return
    if exists and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    with _replacing(path) as file:
        save(file)
