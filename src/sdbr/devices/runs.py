"""What runs on GPUs, for those below of what launches there: to wait for it, and what was wrong."""

from __future__ import annotations

from typing import Protocol


class Runs(Protocol):
    """The runs on one GPU; see the functions below."""

    def wait(self) -> None: ...

    def wait_quietly(self) -> None: ...

    def is_noted(self) -> bool: ...


_runs: dict[int | None, Runs] = {}


def enter(device: int, runs: Runs) -> None:
    """Let the runs on a GPU be known."""
    _runs[device] = runs


def wait(device: int | None) -> None:
    """Wait for the runs on a GPU; nothing runs on the host (None).

    Raises
    ------
    IndexError
        For what went wrong in one (`is_fault`).
    """
    if device in _runs:
        _runs[device].wait()


def wait_quietly(device: int | None) -> None:
    """The same, where the next call tells what went wrong."""
    if device in _runs:
        _runs[device].wait_quietly()


def is_noted(device: int | None) -> bool:
    """Whether something has gone wrong in runs on a GPU that nobody was told yet."""
    return device in _runs and _runs[device].is_noted()


def is_fault(error: BaseException | None) -> bool:
    """Whether an error tells of a fault that was noted on a GPU."""
    return getattr(error, "is_fault", False)
