"""Reporters that listen while a call is traced."""

from __future__ import annotations

from sdbr.base.reasons import Remedy
from sdbr.devices.arrays import ARRAYS
from sdbr.trace.arrays.stripping import is_traced, shown, strip_nested
from sdbr.trace.arrays.traced_float import plain_float
from sdbr.trace.values import Report

import chainer
from chainer import reporter


class Reports:
    """The part of the recorder that notes reports."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.trace = recorder.trace
        self.values = recorder.values
        self.floats = recorder.floats
        self.seen_at_reports: list[set] = []  # per report: `written_so_far`

    def report(self, values, observer) -> None:
        """Note what is reported: values of the call, numbers that change, or what is as it is."""
        items = {}
        self.recorder.memory.note_taken(values, "chainer.report")
        for name, thing in values.items():
            if isinstance(thing, chainer.Variable):
                items[name] = self.values.of_variable(thing)
            elif isinstance(thing, ARRAYS) or is_traced(thing):
                items[name] = self.values.of_array(thing)
            elif self.floats.shows_scalar(thing) or self.floats.is_left(thing):
                items[name] = self.floats.shown_scalar(thing)
            else:
                items[name] = strip_nested(thing)
        self.seen_at_reports.append(self.recorder.attributes.written_so_far())
        self.trace.reports.append(Report(items, observer))


class RecordingReporter:
    """Stands on top of the stack of reporters while tracing; passes on what it notes.

    Parameters
    ----------
    recorder : Recorder
    below : chainer.Reporter or None
        The reporter of the user that is current.
    """

    def __init__(self, recorder, below):
        self.recorder = recorder
        self.below = below
        self._outer = getattr(below, "observation", None)
        self._inner: dict = {}

    @property
    def observation(self) -> dict:
        """That of the reporter below; ``report_scope`` inside the call puts another in place."""
        return self._inner if self.below is None else self.below.observation

    @observation.setter
    def observation(self, observation: dict) -> None:
        if self.below is None:
            self._inner = observation
        else:
            self.below.observation = observation

    def report(self, values, observer=None):
        """Note the values; where a scope inside the call catches them, they are its own affair."""
        own = self.below is not None and self.below.observation is not self._outer
        # Inside a function or static_code it happens again in every run.
        if not self.recorder.depth and not own:
            self.recorder.reports.report(values, observer)
            if self._outer is not None and self.recorder.code_watch is not None:
                # Replays write there at their end: nothing that the call may read after this.
                self.recorder.code_watch.has_changed(self._outer)
        if self.below is not None:
            if not own:
                values = {k: plain_float(shown(v)) for k, v in values.items()}
            self.recorder.depth += 1
            try:
                self.below.report(values, observer)
            finally:
                self.recorder.depth -= 1

    def __getattr__(self, name):
        return getattr(self.below, name)


class Overheard:
    """Stands on top of the stack of reporters while ``static_code`` runs in a trace.

    A replay runs the code first and reports afterwards what the call itself reported: the other
    way round for a name that both report, the call first.
    """

    def __init__(self, recorder):
        self.recorder = recorder
        self.below = None

    def __enter__(self):
        reporters = reporter._get_reporters()
        if reporters:
            self.below = reporters[-1]
            reporters.append(self)

    def __exit__(self, *error):
        if self.below is not None:
            reporter._get_reporters().remove(self)

    def report(self, values, observer=None):
        """Compare with what the call has reported so far."""
        for earlier in self.recorder.trace.reports:
            both = earlier.items.keys() & values.keys() if earlier.observer is observer else ()
            for name in both:
                self.recorder.mark_dynamic(
                    f"static_code reports {name!r}, which the call reported before it",
                    Remedy.USE_FUNCTIONS,
                )
        self.below.report(values, observer)

    @property
    def observation(self) -> dict:
        """That of the reporter below."""
        return self.below.observation

    @observation.setter
    def observation(self, observation: dict) -> None:
        self.below.observation = observation

    def __getattr__(self, name):
        return getattr(self.below, name)
