"""Ways to write a training step: ``python -m benchmarks.ways [WAY ...] [--json FILE]``.

Each way static, against the whole step of the same run and against define-by-run; with
``--peer-python`` PyTorch beside them. All take turns; of each the processor time of a step, the
least and the median of all turns. The exit code is 1 where one takes longer than it may.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import sdbr  # noqa: E402, F401

import chainer  # noqa: E402
import numpy as np  # noqa: E402

from benchmarks import machine  # noqa: E402
from benchmarks.ways.programs import WAYS, Setting  # noqa: E402

WARM = 40


def spent(step: Callable[[], Any], n: int) -> float:
    """Processor time of a step, in seconds."""
    start = time.thread_time()
    for _ in range(n):
        step()
    return (time.thread_time() - start) / n


class Peer:
    """PyTorch in a process of its own."""

    def __init__(self, python: str) -> None:
        self.process = subprocess.Popen(
            [python, os.path.join(os.path.dirname(__file__), "torch_ways.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def spent(self, program: str, n: int) -> float:
        """Processor time of a step, in seconds."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"program": program, "n": n}) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def with_parts(names: list[str]) -> list[str]:
    """These ways and those that they are held against, in the order of the table."""
    wanted = {*names, *[other for name in names for other in WAYS[name].against]}
    return [name for name in WAYS if name in wanted]


def measure(names: list[str], options: argparse.Namespace) -> dict:
    """Microseconds of a step of each way, per turn."""
    peer = Peer(options.peer_python) if options.peer_python else None
    made = {(name, s): Setting(s) for name in names for s in (True, False)}
    steps = {key: WAYS[key[0]].set_up(setting) for key, setting in made.items()}
    for step in steps.values():
        spent(step, WARM)
    found: dict = {name: {"static": [], "chainer": [], "torch": []} for name in names}
    gc.collect()
    for _ in range(options.rounds):
        for name in names:
            found[name]["static"].append(spent(steps[name, True], options.times) * 1e6)
            n = max(4, options.times // 8)
            found[name]["chainer"].append(spent(steps[name, False], n) * 1e6)
            if peer is not None and WAYS[name].peer:
                seconds = peer.spent(WAYS[name].peer, max(8, options.times // 4))
                found[name]["torch"].append(seconds * 1e6)
    for name in names:
        counts = made[name, True].counts()
        found[name]["counts"] = counts
        assert counts["define_by_run_calls"] == 0, f"{name}: {counts}"
    return found


def ratios(found: dict) -> dict:
    """What the table shows of each way."""
    table = {}
    for name, times in found.items():
        way = WAYS[name]
        row: dict[str, Any] = {"line": way.line, "limit": way.limit, "counts": times["counts"]}
        for who in ("static", "chainer", "torch"):
            if times[who]:
                row[who] = {"best": min(times[who]), "median": float(np.median(times[who]))}
        for how in ("best", "median"):
            base = sum(getattr(np, "min" if how == "best" else "median")(found[other]["static"])
                       for other in way.against)  # fmt: skip
            row[f"ratio_{how}"] = None if not base else row["static"][how] / float(base)
        table[name] = row
    return table


def _text(table: dict) -> list[str]:
    lines = [f"{'':32}{'us':>8}{'ratio':>8}{'(median)':>9}{'limit':>7}{'Chainer':>9}{'PyTorch':>9}"]
    for name, row in table.items():
        ratio, median, limit = row["ratio_best"], row["ratio_median"], row["limit"]
        cells = [f"{name:32}{row['static']['best']:8.1f}"]
        cells.append(f"{ratio:8.2f}{median:9.2f}" if ratio is not None else " " * 17)
        cells.append(f"{limit:7.2f}" if limit is not None else " " * 7)
        for who in ("chainer", "torch"):
            cells.append(f"{row[who]['best']:9.0f}" if who in row else " " * 9)
        lines.append("".join(cells))
    return lines


def main(argv: list[str] | None = None) -> int:
    """Print the table; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("ways", nargs="*", metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--times", type=int, default=100, help="static steps of one turn")
    parser.add_argument("--peer-python", default=os.environ.get("SDBR_BENCH_PEER_PYTHON"))
    parser.add_argument("--json")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    chainer.config.sdbr_audit = "off"
    load = machine.load()
    table = ratios(measure(with_parts(options.ways or list(WAYS)), options))
    print("\n".join(_text(table)))
    if options.json:
        settings = {"rounds": options.rounds, "times": options.times}
        machine.save(options.json, load_at_start=load, settings=settings, ways=table)
    late = [
        name
        for name, row in table.items()
        if row["limit"] is not None and row["ratio_best"] > row["limit"]
    ]
    for name in late:
        print(f"{name}: above its limit", file=sys.stderr)
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
