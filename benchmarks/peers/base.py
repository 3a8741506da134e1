"""What a peer has to provide: one runner per case, driven by the worker process."""

from __future__ import annotations

import abc
from typing import Any

from benchmarks.cases.base import Case


class LeftOut(Exception):
    """The peer does not take part in this case; the message says why, in one line."""


class Runner(abc.ABC):
    """Runs one case in one framework.

    Parameters
    ----------
    case : Case
    device : str
        ``'cpu'``, or ``'cuda'``: the first GPU, where all batches lie before the clock starts.
    """

    def __init__(self, case: Case, device: str = "cpu"):
        self.case, self.device = case, device

    @abc.abstractmethod
    def reset(self) -> None:
        """Restore the first weights and an optimizer that has not begun, in place."""

    @abc.abstractmethod
    def run(self, part: str, n: int) -> None:
        """Do n iterations of a part, each with the next batch; `wait` finishes what it begins."""

    def wait(self) -> None:
        """Wait until all that was begun is finished."""
        return  # this thread has done it

    def prepare(self) -> None:
        """Compile what takes long to compile: others may do so at the same time, on a GPU."""
        return  # with the first steps

    @abc.abstractmethod
    def check(self, part: str) -> list[float]:
        """From a reset: the losses of the first steps, or outputs, for comparison among peers."""

    def versions(self) -> dict[str, str]:
        """Return the versions of what ran."""
        return {}

    def facts(self) -> dict[str, Any]:
        """Return what else should be known about the run: numbers of replays, threads."""
        return {}
