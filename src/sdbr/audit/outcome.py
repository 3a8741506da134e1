"""What came of one run of a call: everything that a user can see, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sdbr.audit.compare import flat, one_object
from sdbr.audit.draws import DRAWING
from sdbr.audit.reports import Reported, noting
from sdbr.audit.roots import RULE
from sdbr.audit.snapshot import MISSING, Changes, Snapshot
from sdbr.devices.arrays import ARRAYS, NO_MEMORY
from sdbr.trace.effects.sides import Side, entered

import numpy as np

#: Entries of Variables and parameters that only tell how a gradient came about, and what Chainer
#: notes there the first time that somebody asks.
_INSIDE = frozenset(
    {
        "_grad_var",
        "_grad_valid",
        "_node",
        "_loss_scale",
        "_data",
        "_device",
        "_has_chainerx_array",
        "_loss_scaling_isnan",
    }
)
#: What Chainer's own update on a GPU keeps on a rule for its kernels.
_OF_RULES = frozenset({"_dummy"})


class Outcome:
    """What one run did.

    Parameters
    ----------
    run : callable
        Without arguments.
    before : Snapshot
    side : Side

    Attributes
    ----------
    result : object
    error : Exception or None
    changes : Changes
    reports : list of Reported
    unseen : MemoryError or None
        A GPU had no memory to look at what the run has changed: nothing is known of it.
    """

    def __init__(self, run: Callable[[], Any], before: Snapshot, side: Side):
        self.side = side
        self.result: Any = None
        self.error: Exception | None = None
        self.reports: list[Reported] = []
        with noting() as self.reports, entered(side), DRAWING:
            try:
                self.result = run()
            except Exception as e:
                self.error = e
            except BaseException:
                before.put_back(self._changes(before))
                raise
        self.unseen: BaseException | None = None
        try:
            self.changes: Changes = self._changes(before)
        except NO_MEMORY as e:
            self.changes, self.unseen = Changes(), e

    def _changes(self, before: Snapshot) -> Changes:
        changes = before.changes(written=True)
        changes.inner = list(self.side.inner)
        return changes

    def facts(self) -> dict[str, Any]:
        """Everything to compare, by name."""
        facts: dict[str, Any] = {}
        met: dict[int, tuple] = {}
        flat("the result", self.result, facts, met)
        # Of static_code: it runs once, and in a replay before the call reports.
        for i, report in enumerate(r for r in self.reports if not r.by_code):
            of = "" if report.observer is None else f" of {type(report.observer).__name__}"
            for name, value in report.values.items():
                flat(f"report {i}, {name!r}{of}", value, facts, met)
        facts.update(self._written(met))
        facts.update(one_object(met))
        for name, (state, _) in self.changes.random.items():
            facts[f"the state of {name}"] = _comparable(state)
        return facts

    def live(self, name: str) -> Any:
        """The array that a fact tells of; None where it tells of none."""
        for place, _ in self.changes.arrays:
            if name == f"{place.name} in place":
                return place.thing
        fact = self.facts().get(name)
        return fact if isinstance(fact, ARRAYS) else None

    def _written(self, met: dict[int, tuple]) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        for place, name, value in self.changes.entries:
            if name in _INSIDE or (name in _OF_RULES and place.name.startswith(RULE)):
                continue
            what = f"the gradient of {place.name}" if name == "_grad" else f"{place.name}.{name}"
            what = what.removeprefix(".")
            if value is MISSING:
                facts[f"{what}: taken away"] = True
            else:
                flat(what, value, facts, met)
        for place, contents in self.changes.contents:
            flat(f"the contents of {place.name}", _listed(contents), facts, met)
        for place, array in self.changes.arrays:
            facts[f"{place.name} in place"] = "written" if array is None else array
        return facts


def raise_without_memory(outcome: Outcome) -> None:
    """Raise the error of a GPU that had no memory for a run, or to look at it."""
    missing = outcome.unseen or outcome.error
    if isinstance(missing, NO_MEMORY):
        raise missing


def _listed(contents):
    return sorted(map(repr, contents)) if isinstance(contents, set) else contents


def _comparable(state: tuple) -> list:
    return [x.tobytes() if isinstance(x, np.ndarray) else repr(x) for x in state]
