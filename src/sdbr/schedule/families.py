"""Pairs of schedules that others are built of, for sizes of which there is no trace."""

from __future__ import annotations

import itertools

from sdbr.base.collector import collector_off
from sdbr.schedule.schedule import Schedule
from sdbr.schedule.sizes import (
    Coincides,
    Differs,
    Family,
    Sample,
    may_be_sized,
    size_of,
    sized_schedule,
)

_CANDIDATES = 4  # traced schedules that are looked at, the newest first
_REMEMBERED = 16  # families


class Families:
    """Pairs of schedules that others are, or cannot be, built of.

    Attributes
    ----------
    off : bool
        Nothing is built any more: one that was built has not been as define-by-run.
    """

    def __init__(self):
        self.off = False
        self._known: dict[tuple[int, int], Family] = {}

    def build(self, schedules: dict, key, floats) -> Schedule | None:
        """The schedule for `key`, built of two of `schedules`; None where that is not sound.

        Parameters
        ----------
        schedules : dict
            Of a manager: key -> list of Schedule.
        key : CallKey
        floats : list of float
            Those among the arguments.
        """
        if self.off or schedules.get(key):
            return None
        pairs = itertools.combinations(_candidates(schedules, key), 2)
        families = [self._of(*pair) for pair in pairs]
        for family in sorted(families, key=lambda family: not family.proven):
            sizes = size_of(key, family.one.key, family.other.key)
            if sizes is None or family.refused:
                continue
            both = (family.one.guards, family.other.guards)
            if not all(guards.accept(floats) and guards.hold() for guards in both):
                continue
            try:
                with collector_off():
                    return sized_schedule(key, family, sizes)
            except Coincides:
                continue
            except Differs:
                family.refused = True
        return None

    def stop(self, manager, wrong: Schedule) -> None:
        """One that was built is wrong: forget the others that were, and build no more."""
        self.off = True
        for key, group in list(manager.schedules.items()):
            for other in [s for s in group if s.family is not None and s is not wrong]:
                manager.drop(key, other)

    def _of(self, one: Schedule, other: Schedule) -> Family:
        mark = id(one.trace), id(other.trace)  # which the family holds
        family = self._known.get(mark)
        if family is None:
            family = self._known[mark] = Family(Sample(one), Sample(other))
            if len(self._known) > _REMEMBERED:
                del self._known[next(iter(self._known))]
        return family


def _candidates(schedules: dict, key) -> list[Schedule]:
    """Traced schedules of which the one for `key` may be built; the newest first."""
    every = (
        schedule
        for other, group in reversed(list(schedules.items()))
        if len(other.arrays) == len(key.arrays) and other.arguments == key.arguments
        for schedule in group
        if schedule.asks_no_size and may_be_sized(schedule)
    )
    return list(itertools.islice(every, _CANDIDATES))
