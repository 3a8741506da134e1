"""What a manager knows of its audits."""

from __future__ import annotations

import itertools

from sdbr.audit._budget import Budget
from sdbr.base.errors import ValidationError
from sdbr.base.reasons import Reason, Remedy


class Audits:
    """The audits of one manager.

    Attributes
    ----------
    budget : Budget
        Seconds in replays and in audits.
    passed, failed, inconclusive : int
        `inconclusive`: another thread may be behind the difference.
    noisy : int
        How many passed because rounding errors explain what differed.
    gradients : int
        Backwards that were compared.
    failures : list of (str, str)
        What differed, and the user's line; the newest 20.
    off : bool
        Whether there are none, whatever the setting.
    """

    def __init__(self):
        self.budget = Budget()
        self.passed = 0
        self.failed = 0
        self.inconclusive = 0
        self.noisy = 0
        self.gradients = 0
        self.failures: list[tuple[str, str]] = []
        self.off = False

    @property
    def share(self) -> float:
        """Time in audits over time in replays."""
        return self.budget.audited / self.budget.replayed if self.budget.replayed else 0.0

    def to_dict(self) -> dict:
        """Counts, times and failures as plain data."""
        return {
            "passed": self.passed,
            "failed": self.failed,
            "inconclusive": self.inconclusive,
            "noisy": self.noisy,
            "gradients": self.gradients,
            "seconds": self.budget.audited,
            "replay_seconds": self.budget.replayed,
            "failures": [{"problem": text, "line": line} for text, line in self.failures],
        }

    def count_backward(self, seconds: float, share: float, reference) -> None:
        """Count a backward, which belongs to the replays unless a `reference` ran beside it."""
        if reference is None:
            self.budget.add(seconds, share)
        else:
            self.budget.spend(seconds, share)

    def passes(self, schedule) -> None:
        """Note that a replay of `schedule` was as define-by-run."""
        self.passed += 1
        if schedule.family is not None:
            schedule.family.proven = True
        schedule.good = schedule.usage.served


def fails(manager, schedule, problem: str, line: str, validated: bool) -> None:
    """Say that a replay differs from define-by-run, and let there be no more of them.

    Raises
    ------
    ValidationError
        If the manager is to raise: ``on_dynamic='raise'``, or `validated`.
    """
    audits = manager.audits
    audits.failed += 1
    audits.failures.append((problem, line))
    del audits.failures[:-20]
    since = max(0, schedule.usage.served - (schedule.good or 1) - 1)  # the first call was traced
    where = f" (at {line})" if line and line not in problem else ""
    text = f"{manager.name}: a replay differs from define-by-run: {problem}{where}"
    if validated:
        raise ValidationError(text)
    affected = (
        f"up to {since} replays since the last that was compared may be wrong"
        if since
        else "no other replay is affected"
    )
    schedule.dynamic = Reason(
        f"a replay differs from define-by-run: {problem}", Remedy.USE_FUNCTIONS, line
    )
    schedule.trace.quiet = False
    audits.budget.mark = audits.budget.audited
    for other in itertools.chain(*list(manager.schedules.values())):
        if other.due is not None:
            other.due.restart()  # there may be more that is not seen
    if schedule.family is not None:
        manager.families.stop(manager, schedule)
    manager.runners.forget(schedule)
    text = f"{text}; {affected}. sdbr does not see what the call depends on."
    if manager.options.on_dynamic == "raise":
        raise ValidationError(text)
    manager.warn(f"audit of {id(schedule)}", text + " Such calls run define-by-run from now on.")
