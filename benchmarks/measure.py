"""Measures one case: starts its workers, checks that they agree, and times them in turn."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass, field
from typing import Any

from benchmarks import cases
from benchmarks.peers import PEERS, REFERENCE, Peer
from benchmarks.pool import Worker, WorkerError, interpreter
from benchmarks.stats import Spread, spread


@dataclass(frozen=True)
class Settings:
    """How to measure."""

    rounds: int = 15
    seconds: float = 0.1
    timeout: float = 600.0
    cpus: tuple[int, ...] = ()
    threads: int = 1
    peer_python: str | None = None
    peers: tuple[str, ...] = tuple(PEERS)


@dataclass
class Outcome:
    """What came out for one case."""

    case: str
    times: dict[tuple[str, str], Spread] = field(default_factory=dict)  # (part, peer), seconds
    left_out: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)


def measure(name: str, settings: Settings, say: Any) -> Outcome:
    """Measure a case; `say` takes lines about the progress."""
    case = cases.load(name)
    outcome = Outcome(name)
    workers: dict[str, Worker] = {}
    with tempfile.TemporaryFile() as log:
        try:
            for peer_name in settings.peers:
                say(f"{name}: starting {peer_name}")
                worker = _start(PEERS[peer_name], name, settings, outcome, log)
                if worker is not None:
                    workers[peer_name] = worker
            _check(case, workers, outcome, say)
            for part in case.parts:
                _time(case, part, workers, settings, outcome, say)
            for peer_name, worker in workers.items():
                outcome.facts[peer_name] = worker.ask(do="facts")["facts"]
        finally:
            for worker in workers.values():
                worker.close()
    return outcome


def _start(peer: Peer, name: str, settings: Settings, outcome: Outcome, log: Any) -> Worker | None:
    python = interpreter(peer, settings.peer_python)
    if python is None:
        outcome.left_out[peer.name] = "no --peer-python"
        return None
    try:
        worker = Worker(peer, name, python, settings.cpus, settings.threads, settings.timeout, log)
    except OSError as error:
        outcome.left_out[peer.name] = f"{python}: {error.strerror}"
        return None
    try:
        answer = worker.receive()
    except WorkerError as error:
        answer = {"left_out": str(error)}
    if "left_out" in answer:
        outcome.left_out[peer.name] = answer["left_out"]
        worker.close()
        return None
    outcome.versions[peer.name] = answer["versions"]
    return worker


def _check(case: Any, workers: dict[str, Worker], outcome: Outcome, say: Any) -> None:
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
            workers.pop(name).close()
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
            workers.pop(name).close()


def relative_difference(expected: list[float], found: list[float]) -> float:
    """Largest difference over the largest value; infinite when the lengths differ."""
    if len(expected) != len(found):
        return math.inf
    largest = max(map(abs, expected), default=0.0) or 1.0
    worst = max((abs(a - b) for a, b in zip(expected, found, strict=True)), default=0.0)
    finite = all(map(math.isfinite, [*expected, *found]))
    return worst / largest if finite else math.inf


def _time(
    case: Any, part: str, workers: Any, settings: Settings, outcome: Outcome, say: Any
) -> None:
    counts: dict[str, int] = {}
    samples: dict[str, list[float]] = {}
    for turn in range(settings.rounds + 1):
        say(f"{case.name} {part}: round {turn} of {settings.rounds}")
        for name in list(workers):
            try:
                if turn == 0:
                    answer = workers[name].ask(do="calibrate", part=part, seconds=settings.seconds)
                    counts[name] = answer["n"]
                    continue
                answer = workers[name].ask(do="time", part=part, n=counts[name])
                samples.setdefault(name, []).append(answer["seconds"])
            except WorkerError as error:
                outcome.left_out[name] = f"{part}: {error}"
                workers.pop(name).close()
                samples.pop(name, None)
    for name, seconds in samples.items():
        outcome.times[part, name] = spread(seconds)
