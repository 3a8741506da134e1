"""Calls that ask: several schedules of one key, one for each way through the code."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.schedule.schedule import Schedule
from sdbr.trace.questions import questions

#: Ways through the calls of one key that are traced at most.
MOST = 64


def in_turn(candidates: Sequence[Schedule], answers: tuple[int, ...]) -> list[Schedule]:
    """The schedules of one key that give `answers`, as they are tried: the newest first.

    Where a call asks, a replay tells which way it goes: what can be replayed comes before what
    cannot, what has been replayed before what has not, and what served the last call before others.
    """
    newest = [schedule for schedule in reversed(candidates) if schedule.follows(answers)]
    if any(schedule.answers or schedule.counts for schedule in newest):
        newest.sort(
            key=lambda s: (
                s.dynamic is not None, not s.usage.replays, -s.usage.last_call
            )
        )  # fmt: skip
    return newest


def number_of(candidates: Sequence[Schedule]) -> int:
    """How many schedules of one key there are; all ways of a call count as one."""
    asking = n_ways(candidates)
    return len(candidates) - asking + bool(asking)


def n_ways(candidates: Sequence[Schedule]) -> int:
    """How many ways through the calls of one key are known."""
    return sum(bool(schedule.answers) or schedule.counts for schedule in candidates)


def difference(schedule: Schedule, answers: tuple[int, ...]) -> str:
    """Where a call with these answers leaves the way of `schedule`: at the last of them."""
    question = questions(schedule.trace)[len(answers) - 1]
    return f"what is asked at {question.line}: {question.answer} -> {answers[-1]}"
