"""Measurements on disk.

One file per machine and build of the package, so that a figure is only read where it holds:
``<folder>/measured-<digest>.json``. It is replaced as a whole and never written to; what cannot be
read counts as empty, and where it cannot be written each process measures for itself.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import platform
import tempfile
from pathlib import Path

from sdbr.backends.cpu import _kernels
from sdbr.base.forks import reentrant_lock
from sdbr.base.version import VERSION

#: How many files of other builds are left alone.
KEPT = 16
_log = logging.getLogger("sdbr")


@functools.cache
def machine() -> str:
    """The processor; as much as is needed to tell one kind from another."""
    wanted = ("vendor_id", "cpu family", "model", "model name", "stepping", "cache size")
    facts = {}
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    for line in text.split("\n\n", 1)[0].splitlines():
        name, _, value = line.partition(":")
        if name.strip() in wanted:
            facts[name.strip()] = value.strip()
    parts = [platform.machine(), *(facts.get(name, "") for name in wanted)]
    return " ".join(filter(None, parts)) or platform.processor()


def build() -> str:
    """This build of the package: another compiler makes other kernels."""
    module = os.stat(_kernels.__file__)
    return f"sdbr {VERSION} {_kernels.simd_level()} {module.st_mtime_ns} {module.st_size}"


class Measurements:
    """Seconds by problem and way; None for a way that there is not.

    Parameters
    ----------
    about : dict
        What the figures depend on besides machine and build: versions of libraries, threads.
    path : pathlib.Path, optional
        The folder; None keeps everything in memory.
    """

    def __init__(self, about: dict[str, str], path: Path | None):
        self.about = {"machine": machine(), "build": build(), **about}
        text = json.dumps(self.about, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        self.path = None if path is None else path / f"measured-{digest}.json"
        self.lock = reentrant_lock()
        self._seconds = self._read()

    def get(self, problem: str) -> dict[str, float | None]:
        """What is known of a problem."""
        with self.lock:
            return dict(self._seconds.get(problem, {}))

    def put(self, problem: str, seconds: dict[str, float | None]) -> None:
        """Add to what is known, here and on disk."""
        with self.lock:
            # Other processes may have written in the meantime.
            for key, known in self._read().items():
                self._seconds.setdefault(key, known)
            self._seconds.setdefault(problem, {}).update(seconds)
            self._write()

    def _read(self) -> dict[str, dict[str, float | None]]:
        if self.path is None:
            return {}
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
            if data["about"] != self.about:
                return {}
            return {
                str(problem): {str(way): _duration(s) for way, s in seconds.items()}
                for problem, seconds in data["seconds"].items()
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            _log.info("%s is not used: %r", self.path, error)
            return {}

    def _write(self) -> None:
        if self.path is None:
            return
        text = json.dumps({"about": self.about, "seconds": self._seconds}, indent=1)
        temporary = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=self.path.parent, suffix=".tmp")
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(temporary, self.path)
            temporary = None
            _prune(self.path)
        except OSError as error:
            _log.info("%s cannot be written: %r", self.path, error)
        finally:
            if temporary is not None:
                Path(temporary).unlink(missing_ok=True)


def _duration(seconds) -> float | None:
    if seconds is None:
        return None
    value = float(seconds)
    if not 0 < value < float("inf"):
        raise ValueError(f"{seconds!r} is no duration")
    return value


def _prune(path: Path) -> None:
    """Drop the oldest files of other builds."""
    files = sorted(path.parent.glob("measured-*.json"), key=lambda file: -file.stat().st_mtime)
    for file in files[KEPT:]:
        file.unlink(missing_ok=True)
