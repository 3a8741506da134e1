"""The times of the ops of one program, without what looking at the clock costs."""

from __future__ import annotations

import collections
import statistics
from collections.abc import Iterable

from sdbr.inspection.work import work_of
from sdbr.ops.table import OPS

import numpy as np

#: Runs that are kept, of those by op and of those as a whole.
KEPT = 256


class ProgramTimes:
    """The times of one program.

    A look at the clock takes as long as a small op does, and how long it takes depends on the ops
    around it. So native ops are timed one by one in every other run, and together in the others:
    what the sums differ by is the cost of the looks, each of which has the same share of it. Times
    of native ops are medians: what another process has taken does not count.

    Parameters
    ----------
    program : Program
    name : str
    look : float
        Seconds of a look at the clock on its own: what counts before there are runs of both sorts.

    Attributes
    ----------
    runs : int
    """

    def __init__(self, program, name: str, look: float):
        self.program = program
        self.name = name
        self.runs = 0
        is_python = program.opcodes == 0
        self._native = np.flatnonzero(~is_python)
        self._python = np.flatnonzero(is_python)
        self._look = self._now = look
        self._in_python = np.zeros(len(self._python))
        self._by_op: collections.deque[np.ndarray] = collections.deque(maxlen=KEPT)
        self._whole: collections.deque[float] = collections.deque(maxlen=KEPT)
        self._described: list[dict] | None = None

    def add(self, seconds: np.ndarray, by_op: bool) -> tuple[float, float]:
        """Add a run; what its native ops and its Python ops took."""
        self.runs += 1
        of_native, of_python = seconds[self._native], seconds[self._python]
        native = float(of_native.sum())
        self._in_python += of_python
        if by_op:
            self._by_op.append(of_native)
            if self.runs < 32 or self.runs % 64 == 1:  # medians of all take a while
                self._now = self.cost()
            native -= self._now * len(of_native)
        else:
            native -= self._look
            self._whole.append(native)
        return max(native, 0.0), float(of_python.sum())

    def cost(self) -> float:
        """Seconds of a look at the clock between two ops of this program."""
        if not (self._by_op and self._whole and len(self._native)):
            return self._look
        more = _median([x.sum() for x in self._by_op]) - _median(self._whole)
        return max(more / len(self._native), 0.0)

    def native(self) -> float:
        """Seconds of native ops in all runs."""
        if self._whole:
            return max(_median(self._whole), 0.0) * self.runs
        looked = _median([x.sum() for x in self._by_op]) - self._look * len(self._native)
        return max(looked, 0.0) * self.runs

    def total(self) -> float:
        """Seconds of all ops in all runs."""
        return self.native() + float(self._in_python.sum())

    def seconds(self) -> np.ndarray:
        """Seconds of each op in all runs; they add up to `total`."""
        found = np.zeros(len(self.program))
        found[self._python] = self._in_python
        own = np.zeros(len(self._native))
        if self._by_op:
            own = np.maximum(np.median(np.stack(self._by_op), axis=0) - self.cost(), 0.0)
        if len(own):
            share = own / own.sum() if own.sum() > 0.0 else 1.0 / len(own)
            found[self._native] = self.native() * share
        return found

    def described(self) -> list[dict]:
        """What each op is, and what it has to do."""
        if self._described is None:
            p = self.program
            self._described = [
                {
                    "program": self.name,
                    "index": i,
                    "op": OPS[code].name,
                    **dict(zip(("label", "link", "line"), p.origin(i), strict=True)),
                    "flops": flops,
                    "bytes": nbytes,
                }
                for (i, code), (flops, nbytes) in zip(
                    enumerate(p.opcodes.tolist()), work_of(p), strict=True
                )
            ]
        return self._described

    def rows(self) -> list[dict]:
        """See `Profile.rows`."""
        return [
            _with_rates({**row, "calls": self.runs, "seconds": took})
            for row, took in zip(self.described(), self.seconds().tolist(), strict=True)
        ]


def _median(numbers: Iterable[float]) -> float:
    return float(statistics.median(numbers)) if numbers else 0.0


def _with_rates(row: dict) -> dict:
    for name, n in (("gflops", row["flops"]), ("gbytes", row["bytes"])):
        known = n is not None and row["seconds"] > 0.0
        row[name] = n * row["calls"] / row["seconds"] * 1e-9 if known else None
    return row


def grouped(rows: Iterable[dict], what: str) -> list[dict]:
    """See `Profile.by`."""
    groups: dict[str, list[dict]] = {}
    for row in rows:
        groups.setdefault(row[what], []).append(row)
    total = sum(row["seconds"] for members in groups.values() for row in members) or 1.0
    found = []
    for name, members in groups.items():
        seconds = sum(row["seconds"] for row in members)
        group = {
            what: name,
            "ops": len(members),
            "calls": sum(row["calls"] for row in members),
            "seconds": seconds,
            "share": seconds / total,
        }
        for rate_of, n in (("gflops", "flops"), ("gbytes", "bytes")):
            all_known = seconds > 0.0 and all(row[n] is not None for row in members)
            done = sum(row[n] * row["calls"] for row in members) if all_known else 0
            group[rate_of] = done / seconds * 1e-9 if all_known else None
        found.append(group)
    return sorted(found, key=lambda group: -group["seconds"])


def rate(number: float | None) -> str:
    """A rate for a table."""
    return "" if number is None else f"{number:.1f}"
