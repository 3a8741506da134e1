"""Runs parts, each as a process of its own with its share of the time, and writes what they find.

Whatever becomes of a part, the others run, and the file is right at any time: what a part has found
so far is taken from it every second.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from sdbr.cli.gpu_check.parts import Part
from sdbr.devices.compiled import replace

RESULT, LOG = "gpu-check.json", "gpu-check.log"
_LOOK = 1.0  # seconds between looks at what a part has found
_GRACE = 3.0  # seconds that a part may take longer than it was told
_LINES = 20  # of what a part that died said last

DONE, FAILED, DIED, LATE = "done", "failed", "died", "out of time"


class Conductor:
    """A run of parts.

    Parameters
    ----------
    folder : pathlib.Path
        For the files; made where it is not there.
    result : dict
        What stands in the file beside the parts.
    command : callable
        Part, file and seconds to the command that does it.
    """

    def __init__(
        self,
        folder: Path,
        result: dict[str, Any],
        command: Callable[[Part, Path, float], list[str]],
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / LOG).write_text("")
        self.folder, self.command = folder, command
        self.result = {**result, "parts": {}}
        self.write()

    def run(self, parts: Sequence[Part], seconds: float) -> None:
        """Run parts one after the other; what one leaves of its time is for those behind it."""
        end = time.monotonic() + seconds
        with open(self.folder / LOG, "a") as log:
            for k, part in enumerate(parts):
                shares = sum(other.share for other in parts[k:])
                left = end - time.monotonic()
                self._run(part, left * part.share / shares if shares else left, log)

    def _run(self, part: Part, seconds: float, log: IO[str]) -> None:
        path = self.folder / f".{part.name}.json"
        path.unlink(missing_ok=True)
        print(f"== {part.name}, at most {seconds:.0f} s: {part.text}", flush=True)
        log.write(f"== {part.name}\n")
        log.flush()
        begin, at = time.monotonic(), log.tell()
        found: dict[str, Any] = {"state": "running", "limit_s": round(seconds, 1)}
        self.result["parts"][part.name] = found
        state = self._wait(part, path, seconds, log, found)
        found |= {"state": state, "seconds": round(time.monotonic() - begin, 1)}
        found["found"] = _read(path)
        for left in self.folder.glob(f".{part.name}.*"):  # by one that was ended, too
            left.unlink()
        if state != DONE:
            found["said"] = _last_lines(self.folder / LOG, at)
        self.write()
        print(f"   {state} after {found['seconds']:.0f} s", flush=True)

    def _wait(self, part: Part, path: Path, seconds: float, log: IO[str], found: dict) -> str:
        if seconds <= 0:
            return LATE
        end = time.monotonic() + seconds + _GRACE
        process = subprocess.Popen(
            self.command(part, path, seconds),
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            start_new_session=True,  # with all that it starts, so that all of it can be ended
        )  # fmt: skip
        try:
            while process.poll() is None and time.monotonic() < end:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK)
                now = _read(path)
                if now != found.get("found"):
                    found["found"] = now
                    self.write()
            code = process.poll()
        finally:
            _end(process)
        if code is None:
            return LATE
        found["exit_code"] = code
        return {0: DONE, 1: FAILED}.get(code, DIED)

    def write(self) -> None:
        """Write all that is known."""
        replace(self.folder / RESULT, (json.dumps(self.result, indent=1) + "\n").encode())


def _end(process: subprocess.Popen) -> None:
    """End a process and all that it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def _last_lines(path: Path, at: int) -> list[str]:
    with open(path, errors="replace") as file:
        file.seek(at)
        return file.read().splitlines()[-_LINES:]


def command(ordinal: int) -> Callable[[Part, Path, float], list[str]]:
    """What does a part on a GPU."""

    def made(part: Part, path: Path, seconds: float) -> list[str]:
        words = ["-m", "sdbr.cli.gpu_check.child", part.name, path, f"{seconds:.1f}", ordinal]
        return [sys.executable, *map(str, words)]

    return made
