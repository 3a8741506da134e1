"""``profile``: where the time of replays goes, op by op."""

from __future__ import annotations

import collections
import json
import os
import threading
import time
from typing import Any

from sdbr import _executor
from sdbr.call._runners import watch_calls
from sdbr.inspection.breakdown import Breakdown
from sdbr.inspection.targets import Target
from sdbr.ops.table import OPS

import numpy as np

#: Runs whose ops are kept for the Chrome trace; the table counts all.
KEPT_RUNS = 1000


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
        If `obj` is nothing static.

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
    seconds : float
        In all their ops together.
    """

    def __init__(self, target: Target | None):
        self.target = target
        self.runs = 0
        self.seconds = 0.0
        self._programs: dict[int, _ProgramTimes] = {}
        self._ours: dict[int, tuple] = {}
        self._history: collections.deque = collections.deque(maxlen=KEPT_RUNS)
        self._before = self._watcher_before = None
        self._lock = threading.Lock()
        self._breakdown = Breakdown()

    def __enter__(self) -> Profile:
        self._before = _executor.observe(self._see)
        self._watcher_before = watch_calls(self._called)
        return self

    def __exit__(self, *error) -> None:
        watch_calls(self._watcher_before)
        _executor.observe(self._before)
        self._before = self._watcher_before = None
        self._breakdown.close()
        for manager in self._breakdown.managers():
            found = self._breakdown.of(manager)
            if found is not None:
                manager.measured = {**found, "when": time.time()}

    def _called(self, manager, start: float, seconds: float) -> None:
        if self._watcher_before is not None:
            self._watcher_before(manager, start, seconds)
        if self.target is None or any(m is manager for m in self.target.managers()):
            self._breakdown.call(manager, start, seconds)

    def _see(self, executable, start: float, seconds: np.ndarray) -> None:
        if self._before is not None:
            self._before(executable, start, seconds)
        now = time.perf_counter()
        program = executable.program
        with self._lock:
            if not self._is_ours(program):
                return
            times = self._programs.get(id(program))
            if times is None:
                times = self._programs[id(program)] = _ProgramTimes(
                    program, self._free_name(program)
                )
            times.runs += 1
            times.seconds += seconds
            self.runs += 1
            self.seconds += float(seconds.sum())
            self._history.append((times, start, seconds, threading.get_ident()))
        python = float(seconds[times.python].sum())
        # What lies between the start of a run and this line, besides its ops, is measuring, too.
        run = float(seconds.sum())
        measuring = time.perf_counter() - now + max(now - start - run, 0.0)
        self._breakdown.run(start, run - python, python, measuring)

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

    def rows(self) -> list[dict]:
        """One dict per op: program, index, op, label, line, calls, seconds; slowest first."""
        rows = [row for times in self._programs.values() for row in times.rows()]
        return sorted(rows, key=lambda row: -row["seconds"])

    def table(self, limit: int | None = 30) -> str:
        """The slowest ops as text.

        Parameters
        ----------
        limit : int or None
            Number of lines; None shows every op.
        """
        if not self.runs:
            return "nothing was replayed: see sdbr.explain for the reason"
        lines = [
            f"{times.name}: {times.runs} runs, {len(times.program)} ops, "
            f"{times.seconds.sum() / times.runs * 1e6:.1f} us per run"
            for times in self._programs.values()
        ]
        found = self.breakdown()
        if found is not None:
            lines.append(breakdown_line(found))
        lines.append(
            f"{'program':12s} {'op':>5s} {'name':26s} {'calls':>7s} {'total us':>11s} "
            f"{'mean us':>9s} {'share':>6s}  label and line"
        )
        rows = self.rows()
        total = self.seconds or 1.0
        for row in rows[:limit]:
            where = row["label"] + (f" at {row['line']}" if row["line"] else "")
            lines.append(
                f"{row['program']:12s} {row['index']:5d} {row['op']:26s} {row['calls']:7d} "
                f"{row['seconds'] * 1e6:11.1f} {row['seconds'] / row['calls'] * 1e6:9.2f} "
                f"{row['seconds'] / total:6.1%}  {where}"
            )
        if limit is not None and len(rows) > limit:
            rest = sum(row["seconds"] for row in rows[limit:])
            lines.append(f"... and {len(rows) - limit} more ops, {rest * 1e6:.1f} us")
        return "\n".join(lines)

    __str__ = table

    def __repr__(self) -> str:
        return f"<Profile of {self.runs} runs>"

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
                    "seconds": float(t.seconds.sum()),
                }
                for t in self._programs.values()
            ],
            "ops": self.rows(),
        }

    def chrome_trace(self, path: str | os.PathLike) -> None:
        """Write the last runs as a JSON file for ``chrome://tracing`` or Perfetto.

        Parameters
        ----------
        path : str or path
            Overwritten.
        """
        events = []
        for times, start, seconds, thread in list(self._history):
            begins = start + np.concatenate([[0.0], np.cumsum(seconds)])
            common = {"ph": "X", "pid": os.getpid(), "tid": thread, "cat": times.name}
            events.append(
                {**common, "name": times.name, "ts": start * 1e6, "dur": float(seconds.sum()) * 1e6}
            )
            for row, begin, took in zip(
                times.described(), begins.tolist(), seconds.tolist(), strict=False
            ):
                args = {"index": row["index"], "label": row["label"], "line": row["line"]}
                events.append(
                    {
                        **common,
                        "name": row["op"],
                        "ts": begin * 1e6,
                        "dur": took * 1e6,
                        "args": args,
                    }
                )
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events, "displayTimeUnit": "ns"}, file)


def breakdown_line(found: dict) -> str:
    """A breakdown as one line."""
    native, python, wrapping, outside, total = (
        f"{found[name] * 1e6:.1f}" for name in ("native", "python", "wrapping", "outside", "total")
    )
    return (
        f"a call took {total} us: native ops {native}, Python ops {python}, wrapping {wrapping}, "
        f"outside {outside} (median of {found['calls']})"
    )


class _ProgramTimes:
    """The sums of one program."""

    def __init__(self, program, name: str):
        self.program = program
        self.name = name
        self.runs = 0
        self.seconds = np.zeros(len(program))
        self.python = np.flatnonzero(program.opcodes == 0)
        self._described: list[dict] | None = None

    def described(self) -> list[dict]:
        if self._described is None:
            p = self.program
            self._described = [
                {
                    "program": self.name,
                    "index": i,
                    "op": OPS[code].name,
                    "label": p.labels[i] if p.labels else "",
                    "line": p.lines[i] if p.lines else "",
                }
                for i, code in enumerate(p.opcodes.tolist())
            ]
        return self._described

    def rows(self) -> list[dict]:
        return [
            {**row, "calls": self.runs, "seconds": took}
            for row, took in zip(self.described(), self.seconds.tolist(), strict=True)
        ]
