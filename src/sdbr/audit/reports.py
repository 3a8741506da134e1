"""What a run reports: noted, and handed on once it is known which run counts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import chainer
from chainer import reporter


class Reported(NamedTuple):
    """One ``chainer.report``."""

    values: dict
    observer: Any
    by_code: bool = False  # by ``static_code``


class NotingReporter(chainer.Reporter):
    """Stands on top of the stack of reporters during a run and keeps what is reported.

    Parameters
    ----------
    below : chainer.Reporter
        The reporter of the user that is current; it knows the observers.
    """

    def __init__(self, below):
        super().__init__()
        self.notes: list[Reported] = []
        self._observer_names = getattr(below, "_observer_names", self._observer_names)
        self.observation = dict(getattr(below, "observation", {}))
        self._outer = self.observation

    def report(self, values, observer=None):
        """As ``Reporter.report``; inside ``report_scope`` the values are the call's own affair."""
        super().report(values, observer)
        if self.observation is self._outer:
            self.notes.append(Reported(dict(values), observer))


@contextlib.contextmanager
def noting() -> Iterator[list[Reported]]:
    """Keeps reports from the user's reporter; yields the list that they go to."""
    reporters = reporter._get_reporters()
    if not reporters:
        yield []  # nobody listens
        return
    mine = NotingReporter(reporters[-1])
    reporters.append(mine)
    try:
        yield mine.notes
    finally:
        reporters[:] = [r for r in reporters if r is not mine]


def deliver(notes: list[Reported], by_code: bool = False) -> None:
    """Hand noted reports on to the reporter that is current now."""
    reporters = reporter._get_reporters()
    if not reporters:
        return
    top = reporters[-1]
    for note in notes:
        top.report(note.values, note.observer)
        if by_code and isinstance(top, NotingReporter) and top.notes:
            top.notes[-1] = top.notes[-1]._replace(by_code=True)
