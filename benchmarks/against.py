"""Two trees in turns: ``python -m benchmarks.against TREE [CASE ...]``.

TREE is the root of another checkout whose extension modules are built. Each pair of processes, one
of either tree on the same core, takes turns at a case; a process keeps for its life what memory it
was given, which alone makes a tree differ from itself, so there are several pairs. What is told is
the time of this tree over that of the other one: of the best turns, and the median over the turns
of all pairs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import cases, machine
from benchmarks.peers import PEERS
from benchmarks.pool import ROOT, Worker, WorkerError
from benchmarks.stats import seconds_as_text


@dataclass
class Compared:
    """Seconds per call or step of one part of a case, turn by turn."""

    case: str
    part: str
    other: list[float] = field(default_factory=list)
    this: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        """Best turn of this tree over the best one of the other."""
        return min(self.this) / min(self.other)

    @property
    def median(self) -> float:
        """Median of the ratios of turns that followed each other."""
        return statistics.median(a / b for a, b in zip(self.this, self.other, strict=True))

    def as_text(self) -> str:
        """One line of the table."""
        times = [seconds_as_text(min(each)) for each in (self.other, self.this)]
        name = " ".join(filter(None, (self.case, self.part)))
        return f"{name:26}{times[0]:>10}{times[1]:>10}{self.best:9.3f}{self.median:9.3f}"


def main(argv: list[str] | None = None) -> int:
    """Compare; the exit code is 1 where a worker failed."""
    parser = _parser()
    options = parser.parse_args(argv)
    names = options.cases or cases.NAMES
    trees = [Path(options.tree).resolve(), ROOT]
    if not (trees[0] / "benchmarks" / "worker.py").is_file():
        parser.error(f"TREE: expected the root of a checkout of sdbr, got {options.tree}")
    for name in names:
        if name not in cases.NAMES:
            parser.error(f"no case {name!r}; there are {', '.join(cases.NAMES)}")
    print("\n".join(f"{name}: {text}" for name, text in machine.describe().items()))
    print(f"{'case':26}{'other':>10}{'this':>10}{'best':>9}{'median':>9}", flush=True)
    found = []
    for name in names:
        parts = {part: Compared(name, part) for part in cases.load(name).parts}
        try:
            for _ in range(options.pairs):
                _pair(name, parts, trees, options)
        except (OSError, WorkerError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
        for part in parts.values():
            print(part.as_text(), flush=True)
        found += parts.values()
    if options.json:
        _write(options, found)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.against",
        description="Time two trees on the same cases, in turns.",
    )
    parser.add_argument("tree", metavar="TREE", help="the other tree, its extensions built")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--peer", default="sdbr-cython", choices=[p for p in PEERS if PEERS[p].own])
    parser.add_argument("--pairs", type=int, default=3, metavar="N", help="of processes")
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="turns of each pair")
    parser.add_argument("--seconds", type=float, default=0.1, help="per turn")
    parser.add_argument("--timeout", type=float, default=900.0, help="for one answer")
    parser.add_argument("--json", metavar="FILE", help="write all turns")
    return parser


def _pair(name: str, parts: dict[str, Compared], trees: list[Path], options: Any) -> None:
    peer, cpus = PEERS[options.peer], machine.last_cores(1)
    workers: list[Worker] = []
    with tempfile.TemporaryFile() as log:
        try:
            for tree in trees:
                python = sys.executable
                workers.append(Worker(peer, name, python, cpus, 1, options.timeout, log, tree))
                answer = workers[-1].receive()
                if "left_out" in answer:
                    raise WorkerError(answer["left_out"])
            for part, compared in parts.items():
                n = [
                    worker.ask(do="calibrate", part=part, seconds=options.seconds)["n"]
                    for worker in workers
                ]
                for _ in range(options.rounds):
                    for worker, times in zip(workers, (compared.other, compared.this), strict=True):
                        # As many for both: what the first steps of a turn cost weighs the same.
                        answer = worker.ask(do="time", part=part, n=min(n))
                        times.append(answer["seconds"])
        finally:
            for worker in workers:
                worker.close()


def _write(options: Any, found: list[Compared]) -> None:
    result = {
        "machine": machine.describe(),
        "settings": {"pairs": options.pairs, "rounds": options.rounds, "peer": options.peer},
        "cases": [
            {
                "case": each.case,
                "part": each.part,
                "best": each.best,
                "median": each.median,
                "other_us": [1e6 * seconds for seconds in each.other],
                "this_us": [1e6 * seconds for seconds in each.this],
            }
            for each in found
        ],
    }
    with open(options.json, "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    sys.exit(main())
