"""``profile``: where the time of replays goes, op by op."""

from __future__ import annotations

import collections
import json
import os
import threading
import time
from typing import Any

from sdbr import _executor
from sdbr.base.forks import reentrant_lock
from sdbr.call._watching import watch_calls
from sdbr.inspection.breakdown import Breakdown
from sdbr.inspection.facts import arguments_of
from sdbr.inspection.html.elements import fragment
from sdbr.inspection.html.reports import profile_html
from sdbr.inspection.targets import Target, programs_of, schedules_of
from sdbr.inspection.times import ProgramTimes, grouped, rate
from sdbr.inspection.traces import chrome_events, speedscope
from sdbr.inspection.words import counted

import numpy as np

#: Runs whose ops are kept for the Chrome trace; the table counts all.
KEPT_RUNS = 1000

#: Characters of a link's path in a line of the table.
MOST_OF_LINK = 60


def profile(obj: Any = None) -> Profile:
    """Measure every op of every run inside a ``with`` block.

    Parameters
    ----------
    obj : chainer.Link, callable, optimizer or ScheduleManager, optional
        What to measure (see :func:`sdbr.explain`); None measures every static thing.

    Returns
    -------
    Profile
        A context manager; afterwards ``print(p)`` shows the table.

    Raises
    ------
    TypeError
        If `obj` is none of these.

    Examples
    --------
    >>> with sdbr.profile(model) as p:
    ...     for x, t in batches:
    ...         optimizer.update(model, x, t)
    >>> print(p)
    >>> p.chrome_trace('steps.json')
    """
    return Profile(None if obj is None else Target(obj))


class Profile:
    """Times per op of the runs inside the block.

    Attributes
    ----------
    runs : int
        How many programs were run.
    """

    def __init__(self, target: Target | None):
        self.target = target
        self.runs = 0
        self._look = 0.0
        self._programs: dict[int, ProgramTimes] = {}
        self._ours: dict[int, tuple] = {}
        self._history: collections.deque = collections.deque(maxlen=KEPT_RUNS)
        self._entered = self._open = 0  # blocks that were begun, and that are not ended
        self._lock = threading.Lock()
        self._breakdown = Breakdown()
        self._steps: dict[int, int] = {}  # whole steps of managers before

    def __enter__(self) -> Profile:
        with _OBSERVED.lock:
            self._entered += 1
            self._open += 1
            if self._open == 1:
                self._look = _executor.measure_clock()
                managers = [] if self.target is None else self.target.managers()
                self._steps = {id(manager): manager.statistics.steps for manager in managers}
                _OBSERVED.begin(self)
        return self

    def __exit__(self, *error) -> None:
        with _OBSERVED.lock:
            self._open = max(self._open - 1, 0)
            if self._open:
                return
            _OBSERVED.end(self)
        self._breakdown.close()
        for manager in self._breakdown.managers():
            found = self._breakdown.of(manager)
            if found is not None:
                whole = manager.statistics.steps > self._steps[id(manager)]
                manager.measured = {**found, "when": time.time(), "whole": whole}

    def _called(self, manager, start: float, seconds: float) -> None:
        if self.target is None or any(m is manager for m in self.target.managers()):
            self._steps.setdefault(id(manager), manager.statistics.steps)
            self._breakdown.call(manager, start, seconds)

    def _see(self, executable, start: float, seconds: np.ndarray, by_op: bool) -> None:
        now = time.perf_counter()
        program = executable.program
        with self._lock:
            if not self._is_ours(program):
                return
            times = self._programs.get(id(program))
            if times is None:
                times = self._programs[id(program)] = ProgramTimes(
                    program, self._free_name(program), self._look
                )
            native, python = times.add(seconds, by_op)
            self.runs += 1
            self._history.append((times, start, seconds, by_op, threading.get_ident()))
        # What lies between the start of a run and this line, besides its ops, is measuring, too.
        measuring = time.perf_counter() - now + max(now - start - native - python, 0.0)
        self._breakdown.run(start, native, python, measuring)

    def _is_ours(self, program) -> bool:
        if self.target is None:
            return True
        known = self._ours.get(id(program))
        if known is None:
            # The program is kept with the answer: its id stays taken.
            ours = any(p is program for p in self.target.programs())
            known = self._ours[id(program)] = (ours, program)
        return known[0]

    def _free_name(self, program) -> str:
        n = sum(t.program.name == program.name for t in self._programs.values())
        return program.name if not n else f"{program.name} #{n + 1}"

    # --- results ---------------------------------------------------------------------------
    def breakdown(self) -> dict | None:
        """Where the time of a replayed call goes: medians in seconds, None without a replay.

        Returns
        -------
        dict
            ``calls``, ``native`` ops, ``python`` ops, ``wrapping`` (the rest of the call),
            ``outside`` (up to the next call) and ``total``. The programs that run after a call (its
            backward, the update) count as native and Python ops of the call.
        """
        return self._breakdown.of()

    @property
    def seconds(self) -> float:
        """Seconds of all ops of all runs."""
        return sum((times.total() for times in self._programs.values()), 0.0)

    def rows(self) -> list[dict]:
        """One dict per op, slowest first.

        Returns
        -------
        list of dict
            ``program``, ``index``, ``op``, ``label``, ``link``, ``line``, ``calls``, ``seconds`` of
            all calls; by the formula of the op ``flops`` (None of a Python op) and ``bytes`` of one
            call, and ``gflops`` and ``gbytes`` a second (None where nothing was measured).
        """
        rows = [row for times in self._programs.values() for row in times.rows()]
        return sorted(rows, key=lambda row: -row["seconds"])

    def by(self, what: str) -> list[dict]:
        """Times summed up, the largest first.

        Parameters
        ----------
        what : str
            ``'op'``, ``'link'`` or ``'line'``.

        Returns
        -------
        list of dict
            The name under `what`, ``ops``, ``calls``, ``seconds``, ``share`` of the whole, and
            ``gflops`` and ``gbytes`` a second over all of its ops.

        Raises
        ------
        ValueError
            For any other word.
        """
        if what not in ("op", "link", "line"):
            raise ValueError(f"what: expected 'op', 'link' or 'line', got {what!r}")
        return grouped(self.rows(), what)

    def table(self, limit: int | None = 30) -> str:
        """The slowest ops as text.

        Parameters
        ----------
        limit : int or None
            Number of lines; None shows every op.
        """
        if not self._entered:
            return "nothing was measured: with sdbr.profile(...) as p: what is to be measured"
        if not self.runs:
            return "nothing was replayed: see sdbr.explain for the reason"
        whose = self._whose()
        lines = [
            f"{times.name}: {counted(times.runs, 'run')}, {counted(len(times.program), 'op')}, "
            f"{times.total() / times.runs * 1e6:.1f} us per run{whose.get(id(times.program), '')}"
            for times in self._programs.values()
        ]
        found = self.breakdown()
        if found is not None:
            lines.append(breakdown_line(found))
        lines.append(
            f"{'program':12s} {'op':>5s} {'name':26s} {'calls':>7s} {'total us':>11s} "
            f"{'mean us':>9s} {'share':>6s} {'GFLOP/s':>8s} {'GB/s':>7s}  label, link and line"
        )
        rows = self.rows()
        total = self.seconds or 1.0
        for row in rows[:limit]:
            lines.append(_table_line(row, total))
        if limit is not None and len(rows) > limit:
            rest = sum(row["seconds"] for row in rows[limit:])
            lines.append(f"... and {counted(len(rows) - limit, 'more op')}, {rest * 1e6:.1f} us")
        return "\n".join(lines)

    __str__ = table

    def _whose(self) -> dict[int, str]:
        """Whose each program is that was run in a call of the block, as its line ends."""
        return {
            id(program): f"; {manager.name}({arguments_of(schedule)})"
            for manager in self._breakdown.managers()
            for schedule in schedules_of(manager)
            for program in programs_of(schedule)
        }

    def _repr_html_(self) -> str:
        return str(fragment(profile_html(self)))

    def __repr__(self) -> str:
        return f"<Profile of {counted(self.runs, 'run')}>"

    def to_dict(self) -> dict:
        """All figures as plain data: runs, seconds, breakdown, programs, ops."""
        return {
            "runs": self.runs,
            "seconds": self.seconds,
            "breakdown": self.breakdown(),
            "programs": [
                {
                    "name": t.name,
                    "runs": t.runs,
                    "ops": len(t.program),
                    "seconds": t.total(),
                }
                for t in self._programs.values()
            ],
            "ops": self.rows(),
        }

    def chrome_trace(self, path: str | os.PathLike) -> None:
        """Write the last runs as a JSON file for ``chrome://tracing`` or Perfetto.

        Native ops of every other run are timed together: such a run is one event.

        Parameters
        ----------
        path : str or path
            Overwritten.
        """
        events = chrome_events(list(self._history))
        _write({"traceEvents": events, "displayTimeUnit": "ns"}, path)

    def speedscope(self, path: str | os.PathLike) -> None:
        """Write the last runs as a JSON file for https://www.speedscope.app.

        Programs, below them links, part by part of their paths, and ops: a flame graph.

        Parameters
        ----------
        path : str or path
            Overwritten.
        """
        _write(speedscope(list(self._history)), path)


class _Observed:
    """The profiles whose blocks have not ended; these may end in any order, and in any thread."""

    def __init__(self):
        self.lock = reentrant_lock()
        self._profiles: tuple[Profile, ...] = ()
        self._observer = self._watcher = None

    def begin(self, profile: Profile) -> None:
        """Tell a profile of every run and call from now on."""
        if not self._profiles:
            self._observer = _executor.observe(self._see)
            self._watcher = watch_calls(self._called)
        self._profiles = (*self._profiles, profile)

    def end(self, profile: Profile) -> None:
        """Tell it of no more."""
        if not any(p is profile for p in self._profiles):
            return
        self._profiles = tuple(p for p in self._profiles if p is not profile)
        if not self._profiles:
            watch_calls(self._watcher)
            _executor.observe(self._observer)
            self._observer = self._watcher = None

    def _see(self, *run) -> None:
        for observer in (self._observer, *[p._see for p in self._profiles]):
            if observer is not None:
                observer(*run)

    def _called(self, *call) -> None:
        for watcher in (self._watcher, *[p._called for p in self._profiles]):
            if watcher is not None:
                watcher(*call)


_OBSERVED = _Observed()


def _table_line(row: dict, total: float) -> str:
    link = row["link"]
    link = link if len(link) <= MOST_OF_LINK else f"...{link[3 - MOST_OF_LINK :]}"
    origin = " ".join(filter(None, (row["label"], link)))
    origin += f" at {row['line']}" if row["line"] else ""
    rates = f"{rate(row['gflops']):>8s} {rate(row['gbytes']):>7s}"
    return (
        f"{row['program']:12s} {row['index']:5d} {row['op']:26s} {row['calls']:7d} "
        f"{row['seconds'] * 1e6:11.1f} {row['seconds'] / row['calls'] * 1e6:9.2f} "
        f"{row['seconds'] / total:6.1%} {rates}  {origin}"
    )


def _write(data: dict, path: str | os.PathLike) -> None:
    with open(os.fspath(path), "w", encoding="utf-8") as file:
        json.dump(data, file)


def breakdown_line(found: dict) -> str:
    """A breakdown as one line."""
    native, python, wrapping, outside, total = (
        f"{found[name] * 1e6:.1f}" for name in ("native", "python", "wrapping", "outside", "total")
    )
    return (
        f"a call took {total} us: native ops {native}, Python ops {python}, wrapping {wrapping}, "
        f"outside {outside} (median of {found['calls']})"
    )
