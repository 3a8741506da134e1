"""What builds keep for each other; setup.py asks, and the tests, which compile kernels as well."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path


class Kept:
    """Files by the hash of what they were made from: C by Cython, objects by the compiler.

    In the folder ``SDBR_BUILD_CACHE``, else in ``sdbr/build`` below the user's cache; nowhere where
    it is empty. A file begins with the rest's hash.
    """

    DAYS = 30  # how long what no build asks for stays

    def __init__(self):
        self.folder: Path | None = None
        with contextlib.suppress(RuntimeError):  # nobody's home
            cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
            self.folder = Path(os.environ.get("SDBR_BUILD_CACHE", Path(cache, "sdbr", "build")))
        if os.environ.get("SDBR_BUILD_CACHE") == "":
            self.folder = None

    def get(self, key: str) -> bytes | None:
        if self.folder is None:
            return None
        try:
            os.utime(self.folder / key)
            data = (self.folder / key).read_bytes()
        except OSError:
            return None
        return data[32:] if hashlib.sha256(data[32:]).digest() == data[:32] else None

    def put(self, key: str, content: bytes) -> None:
        if self.folder is None:
            return
        with contextlib.suppress(OSError):  # then this build has compiled for itself
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=key, dir=self.folder)
            try:
                with open(handle, "wb") as file:
                    file.write(hashlib.sha256(content).digest() + content)
                os.replace(name, self.folder / key)
            except OSError:
                os.unlink(name)
                raise

    def clear_old(self) -> None:
        last = time.time() - self.DAYS * 24 * 3600
        with contextlib.suppress(OSError):
            for file in self.folder.iterdir() if self.folder else ():
                if re.match(r"[0-9a-f]{64}", file.name) and file.stat().st_mtime < last:
                    file.unlink()

    def run(self, run: Callable, command: list[str], **options) -> None:
        """Run a command of the compiler; where it makes an object, only if there is none yet."""
        key = self.key(tuple(command)) if self.folder and "-c" in command else None
        content = None if key is None else self.get(key)
        if content is not None:
            Path(command[command.index("-o") + 1]).write_bytes(content)
            return
        run(command, **options)
        if key is not None:
            self.put(key, Path(command[command.index("-o") + 1]).read_bytes())

    def key(self, command: tuple[str, ...]) -> str | None:
        """The hash of the preprocessed source, of the flags, and of the compiler with these.

        None where it cannot be preprocessed: the command itself says why.
        """
        place = command.index("-o")  # behind the source
        source = command[place - 1]
        flags = [x for x in command[: place - 1] + command[place + 2 :] if x != "-c"]
        done = subprocess.run([*flags, "-E", "-P", source], capture_output=True, check=False)
        noted = flags.index("-MF") if "-MF" in flags else len(flags)
        plain = [x for x in flags[:noted] + flags[noted + 2 :] if x[:2] not in ("-I", "-D", "-M")]
        compiler = predefined(tuple(plain))
        if done.returncode != 0 or compiler is None:
            return None
        parts = (b"object", compiler, "\0".join(plain).encode(), done.stdout)
        return hashlib.sha256(b"\0\0".join(parts)).hexdigest()


@functools.cache
def predefined(compiler: tuple[str, ...]) -> bytes | None:
    """What a compiler says of itself and of the machine that these flags mean."""
    try:
        told = subprocess.run([compiler[0], "--version"], capture_output=True, check=True)
        command = [*compiler, "-dM", "-E", "-x", "c", os.devnull]
        return told.stdout + subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
