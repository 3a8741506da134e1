"""Measures one case: checks that its workers agree, and times them in turn."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from benchmarks import cases
from benchmarks.conditions import Settings
from benchmarks.crew import Crew
from benchmarks.peers import REFERENCE
from benchmarks.pool import Worker, WorkerError
from benchmarks.stats import Spread, spread

#: What is timed beside ``time``, many steps that are waited for together: on a GPU each step waited
#: for, and the time that it takes a processor to launch it.
ON_GPU = ("latency", "processor")
FEWEST = 3  # rounds, where time is over


@dataclass
class Outcome:
    """What came out for one case.

    Attributes
    ----------
    times : dict
        Seconds by part and peer.
    more : dict
        The same by what was timed, part and peer: ``latency``, ``processor``, ``process``.
    """

    case: str
    device: str = "cpu"
    times: dict[tuple[str, str], Spread] = field(default_factory=dict)
    more: dict[tuple[str, str, str], Spread] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)


def measure(name: str, settings: Settings, crew: Crew, say: Any) -> Outcome:
    """Measure a case; `say` takes lines about the progress."""
    case = cases.load(name)
    outcome = Outcome(name, settings.device)
    try:
        workers = crew.take_up(name, outcome, say)
        _check(case, workers, outcome, say, crew)
        for part in case.parts:
            _time(case, part, workers, settings, outcome, say, crew)
        for peer_name, worker in workers.items():
            try:
                outcome.facts[peer_name] = worker.ask(do="facts")["facts"]
            except WorkerError as error:
                outcome.facts[peer_name] = {"error": str(error)}
    finally:
        crew.end_of_case()
    return outcome


def _check(case: Any, workers: dict[str, Worker], outcome: Outcome, say: Any, crew: Crew) -> None:
    """Leave out, loudly, every peer that does not compute what the reference computes."""
    expected: dict[str, list[float]] = {}
    names = sorted(workers, key=lambda name: name != REFERENCE)
    for name in names:
        say(f"{case.name}: checking {name}")
        try:
            found = {
                part: workers[name].ask(do="check", part=part)["values"] for part in case.parts
            }
        except WorkerError as error:
            outcome.left_out[name] = str(error)
            workers.pop(name)
            crew.drop(name)
            continue
        expected = expected or found
        for part, values in found.items():
            difference = relative_difference(expected[part], values)
            if not difference <= case.tolerance:
                outcome.wrong[name] = (
                    f"{part}: differs from {names[0]} by {difference:.1e} of the largest value, "
                    f"at most {case.tolerance:.0e} is allowed"
                )
        if name in outcome.wrong:
            workers.pop(name)


def relative_difference(expected: list[float], found: list[float]) -> float:
    """Largest difference over the largest value; infinite when the lengths differ."""
    if len(expected) != len(found):
        return math.inf
    largest = max(map(abs, expected), default=0.0) or 1.0
    worst = max((abs(a - b) for a, b in zip(expected, found, strict=True)), default=0.0)
    finite = all(map(math.isfinite, [*expected, *found]))
    return worst / largest if finite else math.inf


def _time(
    case: Any, part: str, workers: Any, settings: Settings, outcome: Outcome, say: Any, crew: Crew
) -> None:
    counts: dict[str, int] = {}
    samples: dict[str, dict[str, list[float]]] = {}
    wanted = ("time", *ON_GPU) if settings.device == "cuda" else ("time",)
    for turn in range(settings.rounds + 1):
        if turn > FEWEST and not settings.left():
            break
        say(f"{case.name} {part}: round {turn} of {settings.rounds}")
        for name in list(workers):
            try:
                if turn == 0:
                    answer = workers[name].ask(do="calibrate", part=part, seconds=settings.seconds)
                    counts[name] = answer["n"]
                    continue
                for what in wanted:
                    answer = workers[name].ask(do=what, part=part, n=counts[name])
                    of_peer = samples.setdefault(name, {})
                    of_peer.setdefault(what, []).append(answer["seconds"])
                    if "process" in answer:
                        of_peer.setdefault("process", []).append(answer["process"])
            except WorkerError as error:
                outcome.left_out[name] = f"{part}: {error}"
                workers.pop(name)
                crew.drop(name)
                samples.pop(name, None)
    for name, of_peer in samples.items():
        outcome.times[part, name] = spread(of_peer.pop("time"))
        for what, seconds in of_peer.items():
            outcome.more[what, part, name] = spread(seconds)
