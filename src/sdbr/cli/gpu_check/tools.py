"""Programs that parts start: found, run within their time, heard."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

TOOLS = ("ncu", "compute-sanitizer", "nvcc")
#: Where CUDA's tools lie that are not on PATH; the newest first.
_FOLDERS = ("/usr/local/cuda/bin", "/usr/local/cuda*/bin", "/opt/nvidia/nsight-compute/*")
LINES = 60  # of what a program said that are kept


def find(name: str) -> str | None:
    """The path of a tool of CUDA's; None where it is not installed."""
    found = shutil.which(name)
    if found is not None:
        return found
    for folder in _FOLDERS:
        for path in sorted(glob.glob(os.path.join(folder, name)), reverse=True):
            if os.access(path, os.X_OK):
                return path
    return None


def run(
    command: Sequence[str],
    seconds: float,
    root: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> tuple[int | None, list[str]]:
    """Run a program; what it says goes to the log, too.

    Parameters
    ----------
    command : sequence of str
    seconds : float
        After which it is ended.
    root : pathlib.Path, optional
        Its folder.
    environment : mapping of str to str, optional
        Further variables.

    Returns
    -------
    int or None, list of str
        Its exit code, None where it was ended, and the lines that it said.
    """
    process = subprocess.Popen(
        command, cwd=root, env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    said: list[str] = []
    listener = threading.Thread(target=_listen, args=(process.stdout, said), daemon=True)
    listener.start()
    code: int | None = None
    try:
        code = process.wait(max(0.1, seconds))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    listener.join(2.0)  # what it has started may live on, and hold its output
    return code, said[:]


def _listen(stream: IO[str], said: list[str]) -> None:
    with stream:
        for line in stream:
            said.append(line.rstrip("\n"))
            print(line, end="", flush=True)


def python(*words: object) -> list[str]:
    """A command of this interpreter's."""
    return [sys.executable, *map(str, words)]
