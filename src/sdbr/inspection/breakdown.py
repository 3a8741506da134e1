"""Where the time of a call goes: native ops, Python ops, wrapping, and outside of it."""

from __future__ import annotations

import collections
import math
import statistics
import threading
import time

#: Calls whose times are kept; medians are taken over them.
KEPT_CALLS = 1000

PARTS = ("native", "python", "wrapping", "outside")


class _Call:
    """One static call: its own time, that of the ops in it, and of the ops up to the next call."""

    __slots__ = ("after", "end", "inside", "manager", "replay", "start", "wall")

    def __init__(self, manager, start: float, wall: float, replay: bool):
        self.manager = manager
        self.start = start
        self.wall = wall
        self.replay = replay  # a program ran in it
        self.end = start + wall
        # Seconds of native ops, of Python ops, and of measuring.
        self.inside = [0.0, 0.0, 0.0]
        self.after = [0.0, 0.0, 0.0]

    def parts(self) -> dict[str, float]:
        native, python, measuring = self.inside
        native_after, python_after, measuring_after = self.after
        outside = self.end - self.start - self.wall
        return {
            "native": native + native_after,
            "python": python + python_after,
            "wrapping": max(self.wall - native - python - measuring, 0.0),
            "outside": max(outside - native_after - python_after - measuring_after, 0.0),
        }


class _Thread:
    def __init__(self):
        self.calls: collections.deque[_Call] = collections.deque(maxlen=KEPT_CALLS)
        self.runs: list[tuple] = []  # (start, native, python, measuring) since the last call

    def flush(self, start: float) -> tuple[list[float], int]:
        """Give the runs before `start` to the last call; sums and number of those after it."""
        inside = [0.0, 0.0, 0.0]
        n = 0
        for began, *seconds in self.runs:
            if began >= start:
                sums = inside
                n += 1
            elif self.calls:
                sums = self.calls[-1].after
            else:
                continue
            for i, s in enumerate(seconds):
                sums[i] += s
        self.runs.clear()
        return inside, n


class Breakdown:
    """Collects runs of programs and static calls of every thread."""

    def __init__(self):
        self._threads: dict[int, _Thread] = {}
        self._lock = threading.Lock()

    def run(self, start: float, native: float, python: float, measuring: float) -> None:
        """A program was run."""
        with self._lock:
            thread = self._thread()
            thread.runs.append((start, native, python, measuring))
            if len(thread.runs) > KEPT_CALLS:  # updates without a call
                thread.flush(math.inf)

    def call(self, manager, start: float, wall: float) -> None:
        """A call of `manager` has ended."""
        with self._lock:
            thread = self._thread()
            inside, runs = thread.flush(start)
            while thread.calls and thread.calls[-1].start >= start:
                inner = thread.calls.pop()  # a call inside this one
                runs += inner.replay
                for i in range(3):
                    inside[i] += inner.inside[i] + inner.after[i]
            call = _Call(manager, start, wall, bool(runs))
            call.inside = inside
            if thread.calls:
                thread.calls[-1].end = start
            thread.calls.append(call)

    def close(self) -> None:
        """The measuring ends here."""
        now = time.perf_counter()
        with self._lock:
            for thread in self._threads.values():
                thread.flush(now)
                if thread.calls:
                    thread.calls[-1].end = now

    def managers(self) -> list:
        """The managers whose calls were seen."""
        found = {id(c.manager): c.manager for t in self._threads.values() for c in t.calls}
        return list(found.values())

    def of(self, manager=None) -> dict | None:
        """Medians over the replayed calls of one manager, or of all; None when there is none.

        Returns
        -------
        dict
            ``calls``; seconds a call: ``native``, ``python``, ``wrapping`` (the rest of the call:
            comparing, binding, handing out), ``outside`` (from its end to the next call, without
            the programs that run there, such as the backward), and ``total``, their sum.
        """
        parts = [
            call.parts()
            for thread in self._threads.values()
            for call in thread.calls
            if call.replay and (manager is None or call.manager is manager)
        ]
        if not parts:
            return None
        medians = {name: statistics.median(p[name] for p in parts) for name in PARTS}
        return {"calls": len(parts), **medians, "total": sum(medians.values())}

    def _thread(self) -> _Thread:
        return self._threads.setdefault(threading.get_ident(), _Thread())
