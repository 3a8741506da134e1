"""What a part of the check gets: its minutes, the GPU, and a file that has all that it found."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sdbr.devices.compiled import cubin, replace
from sdbr.devices.driver import Device, Driver

_LINES = 12  # of an error that are kept


class Job:
    """One part, as its process sees it.

    Parameters
    ----------
    path : pathlib.Path
        Where what was found is written, after each single thing.
    seconds : float
        How long the part may take.
    ordinal : int
        Which GPU.

    Attributes
    ----------
    found : dict
        By name; a thing that failed is ``{"error": ...}``.
    failed : list of str
        Names of those.
    """

    def __init__(self, path: Path, seconds: float, ordinal: int = 0) -> None:
        self.path, self.seconds, self.ordinal = path, seconds, ordinal
        self.end = time.monotonic() + seconds
        self.found: dict[str, Any] = {}
        self.failed: list[str] = []

    def left(self) -> float:
        """Seconds that are left; not below 0."""
        return max(0.0, self.end - time.monotonic())

    def note(self, name: str, value: Any) -> None:
        """Keep something that was found."""
        self.found[name] = value
        replace(self.path, (json.dumps(self.found, indent=1) + "\n").encode())

    def measure(self, name: str, function: Callable[[], Any]) -> Any:
        """Keep what a function gives, or its error, after which all goes on.

        Parameters
        ----------
        name : str
        function : callable

        Returns
        -------
        object
            What it gave; None where it failed, and where no time is left for it.
        """
        if not self.left():
            self.note(name, {"error": "no time was left for it"})
            return None
        try:
            value = function()
        except Exception as error:  # whatever it is: the other things are measured all the same
            self.fail(name, error)
            return None
        self.note(name, value)
        return value

    def fail(self, name: str, error: Exception) -> None:
        """Keep an error."""
        lines = traceback.format_exception(error)
        self.failed.append(name)
        self.note(name, {"error": "".join(lines).splitlines()[-_LINES:]})


def open_device(ordinal: int) -> Device:
    """The GPU of this number.

    Raises
    ------
    BackendError
        If there is none.
    """
    return Device(Driver(), ordinal)


def machine_code(device: Device, source: tuple[str, dict[str, str]]) -> bytes:
    """What the device runs, of a source and the headers that it includes."""
    return cubin(*source, device.architecture)
