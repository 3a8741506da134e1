"""Where the time of a case goes, and what it needs at least: ``python -m benchmarks.floor CASE``.

The floor of a step is the arithmetic of its products and convolutions at the rate that BLAS reaches
here on a large product, and the bytes that the update has to move at the rate of ``b += a``. What
is below the sum skips arithmetic (as Winograd's way does) or finds the parameters in a cache.
"""

from __future__ import annotations

import argparse
import collections
import math
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import sdbr
from sdbr.inspection.targets import schedules_of

import chainer
import numpy as np
from scipy.linalg import blas

from benchmarks import cases, machine
from benchmarks.peers import PEERS
from benchmarks.stats import seconds_as_text

#: Adam reads gradient, parameter and two moments, and writes the last three.
MOVES = 7
RUNS = 9


def best(run: Callable[[], Any], n: int = 7) -> float:
    """Return the shortest of `n` runs, in seconds."""
    times = []
    for _ in range(n):
        start = perf_counter()
        run()
        times.append(perf_counter() - start)
    return min(times)


def gemm_rate(n: int = 768) -> float:
    """Return what BLAS reaches on a product of `n` by `n`, in operations per second."""
    a = np.asfortranarray(np.random.RandomState(0).rand(n, n).astype(np.float32))
    return 2 * n**3 / best(lambda: blas.sgemm(1.0, a, a), 40)


def stream_rate(n: int = 1 << 22) -> float:
    """Return what ``b += a`` on `n` floats reaches, in bytes read and written per second."""
    a, b = np.ones((2, n), np.float32)
    return 12 * n / best(lambda: np.add(a, b, out=b), 20)


def operations(node: Any) -> int:
    """Return the operations of a traced node going forward: of its products alone.

    Parameters
    ----------
    node : TracedNode
    """
    kind = type(node.function).__name__
    shapes = [value.shape for value in node.inputs[:2]]
    y = math.prod(node.outputs[0].shape)
    if kind == "LinearFunction":
        return 2 * y * shapes[1][1]
    if kind in ("Convolution2DFunction", "ConvolutionND"):
        return 2 * y * math.prod(shapes[1][1:])
    if kind in ("Deconvolution2DFunction", "DeconvolutionND"):
        return 2 * math.prod(shapes[0]) * math.prod(shapes[1][1:])
    if kind in ("MatMul", "BatchMatMul"):
        a = shapes[0] if len(shapes[0]) > 1 else (1, *shapes[0])
        return 2 * y * a[-2 if node.function.transa else -1]
    return 0


def of_step(node: Any, trained: bool) -> int:
    """Return the operations of a node and of the gradients that are wanted."""
    wanted = sum(value.requires_grad for value in node.inputs[:2]) if trained else 0
    return operations(node) * (1 + wanted)


def schedules(runner: Any) -> list[Any]:
    """Return the schedules that were run, one per static link."""
    found = []
    for model in runner.managed():
        manager = model.schedule_manager
        if manager.statistics.replays:
            found += schedules_of(manager)[-1:]
    return found


def measure(name: str, peer: str = "sdbr-cython") -> dict[str, Any]:
    """Run the first part of a case under the profiler and compute its floor."""
    case = cases.load(name)
    runner = PEERS[peer].make(case)
    part = case.parts[0]
    runner.run(part, 4)
    seconds = best(lambda: runner.run(part, 1), RUNS)
    rows = quickest(lambda: runner.run(part, 1))
    trained = case.kind != "infer"
    work: collections.Counter[str] = collections.Counter()
    for schedule in schedules(runner):
        for node in schedule.trace.nodes:
            amount = of_step(node, trained and node.backprop)
            if amount:
                work[node.label] += amount
    params = sum(param.size for param in runner.model.params())
    moved = 4 * MOVES * params if trained else 0
    rates = {"gemm": gemm_rate(), "stream": stream_rate()}
    arithmetic, update = sum(work.values()) / rates["gemm"], moved / rates["stream"]
    return {
        "case": name,
        "peer": peer,
        "part": part,
        "seconds": seconds,
        "operations": dict(work),
        "parameters": params,
        "rates": rates,
        "floor": {"arithmetic": arithmetic, "update": update, "sum": arithmetic + update},
        "ops": by_name(rows),
        "slowest": rows[:20],
    }


def quickest(run: Callable[[], Any]) -> list[dict[str, Any]]:
    """Return the ops of a run with the shortest time of each in several runs, slowest first."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for _ in range(RUNS):
        with sdbr.profile() as profile:
            run()
        for row in profile.rows():
            known = found.setdefault((row["program"], row["index"]), row)
            known["seconds"] = min(known["seconds"], row["seconds"])
    return sorted(found.values(), key=lambda row: -row["seconds"])


def by_name(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return seconds per run by op, the slowest first."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        entry = found.setdefault(row["op"], {"op": row["op"], "ops": 0, "seconds": 0.0})
        entry["ops"] += 1
        entry["seconds"] += row["seconds"]
    return sorted(found.values(), key=lambda entry: -entry["seconds"])


def text(found: dict[str, Any]) -> str:
    """Return the figures as a page of text."""
    floor, rates, t = found["floor"], found["rates"], found["seconds"]
    work = sum(found["operations"].values())
    total = sum(entry["seconds"] for entry in found["ops"]) or 1.0
    lines = [
        f"{found['case']}, {found['part']}, {found['peer']}: {seconds_as_text(t)} (best of {RUNS})",
        f"  arithmetic  {work / 1e9:10.3f} GFLOP at {rates['gemm'] / 1e9:.1f} GFLOP/s: "
        f"{seconds_as_text(floor['arithmetic'])}",
        f"  update of   {found['parameters']:10,} parameters at {rates['stream'] / 1e9:.1f} GB/s: "
        f"{seconds_as_text(floor['update'])}",
        f"  floor       {seconds_as_text(floor['sum'])}; measured {t / floor['sum']:.2f} of it",
        f"  all ops     {seconds_as_text(total)}, the shortest time of each in {RUNS} runs",
        f"  {'op':<28}{'ops':>6}{'time':>12}{'share':>8}",
    ]
    for entry in found["ops"][:16]:
        share = entry["seconds"] / total
        taken = seconds_as_text(entry["seconds"])
        lines.append(f"  {entry['op']:<28}{entry['ops']:>6}{taken:>12}{share:>8.1%}")
    lines.append("  slowest ops")
    for row in found["slowest"]:
        taken = seconds_as_text(row["seconds"])
        lines.append(f"  {row['op']:<28}{taken:>18}  {row['label']}")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Print the profile and the floor of the cases that are named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.floor", description=__doc__)
    parser.add_argument("cases", nargs="+", choices=cases.NAMES, metavar="CASE")
    parser.add_argument("--peer", choices=("sdbr-cython", "sdbr-own"), default="sdbr-cython")
    options = parser.parse_args(argv)
    print(f"{machine.processor()}; Chainer {chainer.__version__}")
    for name in options.cases:
        print(text(measure(name, options.peer)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
