"""The update alone: ``python -m benchmarks.update --peer-python P [--page --json FILE]``.

Gradients are there; what is timed is ``optimizer.update()`` of a static optimizer, ``step()`` of
PyTorch's optimizer of that kind (fused where it has that, else foreach), and the update of optax
in one ``jit`` with parameters and state donated. The same parameters and gradients on every side;
in turns, warm, medians. One thread: processor time of the whole process; more: the clock.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import machine, page
from benchmarks.pool import environment
from benchmarks.stats import spread

RULES = ("Adam", "MomentumSGD")
OTHERS = ("SGD", "AdaGrad", "AdaDelta", "AdamW", "RMSprop")
TENSORS = (1, 10, 100, 1000)
ELEMENTS = (10**4, 10**5, 10**6, 10**7, 10**8)
#: Of the other rules.
ONE_SIZE = (100, 10**6)
PEERS = ("torch", "optax")
#: Updates after which the sides are compared, and by how much of what has moved they may differ.
CHECKED, DIFFERENCE = 3, 1e-3
LIMIT = 0.9


class Case(NamedTuple):
    """An optimizer and its parameters."""

    rule: str
    tensors: int
    elements: int


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """All that are asked for."""
    for rule, elements, tensors in itertools.product(RULES, options.elements, options.tensors):
        yield Case(rule, tensors, elements)
    for rule in OTHERS:
        yield Case(rule, *ONE_SIZE)


class Side:
    """A process of :mod:`benchmarks.peers.updates`."""

    def __init__(self, name: str, python: str, threads: int) -> None:
        self.process = subprocess.Popen(
            [python, "-m", "benchmarks.peers.updates", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=page.ROOT,
            env=environment(name == "sdbr", machine.last_cores(threads), threads),
        )

    def ask(self, **what: Any) -> dict[str, Any]:
        """What it answers."""
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(self.process.args[2:])} ended: {what}")
        return json.loads(line)

    def close(self) -> None:
        """End it."""
        self.process.stdin.close()
        self.process.wait()


def compare(moved: dict[str, list[float]], case: Case) -> None:
    """See to it that all sides make the same step."""
    own = np.array(moved["sdbr"])
    for name, other in moved.items():
        off = np.abs(np.array(other) - own).max() / np.abs(own).max()
        if not off <= DIFFERENCE:
            raise RuntimeError(f"{name} makes another step: {case}, {off:.2g} of it")


def measure(case: Case, sides: dict[str, Side], options: argparse.Namespace) -> dict[str, Any]:
    """One record."""
    if case.tensors > options.optax_tensors:
        sides = {k: side for k, side in sides.items() if k != "optax"}
    answers = {k: s.ask(**case._asdict(), check=CHECKED) for k, s in sides.items()}
    compare({k: a["moved"] for k, a in answers.items()}, case)
    times: dict[str, int] = {}
    for name, side in sides.items():
        side.ask(times=CHECKED)
        once = side.ask(times=1)["us"]
        times[name] = max(1, min(2000, int(options.seconds * 1e6 / max(once, 1))))
        side.ask(times=times[name])
    us: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(options.rounds):
        for name, side in sides.items():
            us[name].append(side.ask(times=times[name])["us"])
    for side in sides.values():
        side.ask()
    return {
        **case._asdict(),
        "us": {k: statistics.median(v) for k, v in us.items()},
        "p10 p90": {k: [spread(v).p10, spread(v).p90] for k, v in us.items()},
    }


def of(record: dict[str, Any]) -> str:
    """Microseconds, and ratios to the peers; above the limit in bold."""
    us = record["us"]
    cells = [f"{us['sdbr']:,.4g} us" if us["sdbr"] < 1e4 else f"{us['sdbr'] / 1e3:,.4g} ms"]
    for peer in PEERS:
        if peer in us:
            ratio = us["sdbr"] / us[peer]
            bold = "**" if peer == "torch" and ratio > LIMIT else ""
            cells.append(f"{bold}{ratio:.2f}{bold}")
        else:
            cells.append("-")
    return ", ".join(cells)


def table(results: list[dict[str, Any]]) -> str:
    """Rows by rule, threads and elements; columns by tensors."""
    every = [{**r, "threads": x["threads"]} for x in results for r in x["records"]]
    grid = [r for r in every if r["rule"] in RULES]
    tensors = sorted({r["tensors"] for r in grid})
    heads = [f"{n:,} tensor{'s' * (n > 1)}" for n in tensors]
    lines = [f"| rule, threads, elements | {' | '.join(heads)} |"]
    lines.append("| --- " * (len(heads) + 1) + "|")
    rows = dict.fromkeys((r["rule"], r["threads"], r["elements"]) for r in grid)
    for row in rows:
        found = {
            r["tensors"]: of(r) for r in grid if (r["rule"], r["threads"], r["elements"]) == row
        }
        name = f"{row[0]}, {row[1]}, {row[2]:,}"
        lines.append(f"| {name} | {' | '.join(found.get(n, '-') for n in tensors)} |")
    counts = list(dict.fromkeys(x["threads"] for x in results))
    heads = [page.threads_as_text(n) for n in counts]
    lines += ["", f"| {ONE_SIZE[1]:,} elements in {ONE_SIZE[0]} tensors | {' | '.join(heads)} |"]
    lines.append("| --- " * (len(heads) + 1) + "|")
    for rule in OTHERS:
        found = {r["threads"]: of(r) for r in every if r["rule"] == rule}
        lines.append(f"| {rule} | {' | '.join(found.get(n, '-') for n in counts)} |")
    return "\n".join(lines)


def run(threads: int, options: argparse.Namespace) -> dict[str, Any]:
    """All cases with so many threads."""
    python = {"sdbr": sys.executable, **dict.fromkeys(PEERS, options.peer_python)}
    sides = {k: Side(k, p, threads) for k, p in python.items() if p}
    records = []
    try:
        for case in cases(options):
            if options.only in case.rule:
                records.append(measure(case, sides, options))
                name = f"{case.rule} {case.elements:,} in {case.tensors:,}, {threads} thr."
                print(f"{name:48}{of(records[-1])}", flush=True)
    finally:
        for side in sides.values():
            side.close()
    return {"threads": threads, "records": records}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write the JSON file and the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=0.03, help="of one turn, at least")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--tensors", type=int, nargs="*", default=TENSORS)
    parser.add_argument("--elements", type=int, nargs="*", default=ELEMENTS)
    parser.add_argument(
        "--optax-tensors", type=int, default=1000, help="at most; XLA compiles 1,000 for a minute"
    )
    parser.add_argument("--only", default="", help="rules whose name has this in it")
    parser.add_argument("--peer-python", help="an interpreter that has PyTorch and optax")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", action="store_true", help="write docs/performance.md")
    options = parser.parse_args(argv)
    load = machine.load()
    results = []
    for threads in options.threads:
        results.append(run(threads, options))
        if options.json:
            found = {"machine": machine.describe(), "load": load, "results": results}
            options.json.write_text(json.dumps(found, indent=1) + "\n")
    print(table(results))
    if options.page:
        page.replace(page.ROOT / "docs" / "performance.md", "updates", table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
