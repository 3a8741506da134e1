"""What the loop costs per op, and what building a program costs per op.

*Dispatch cost* = (a program of n one-element adds) - (a C loop that calls the same kernel n times
through the same pointers), over n. Both are timed inside C, in turn; `run` is the program through
its Python method, which adds the price of one call.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import Any

from sdbr._executor import Executable, dispatch_baseline, loop_seconds
from sdbr.backends import make_executable
from sdbr.program._memory import Memory
from sdbr.program.buffers import BufferTable
from sdbr.program.builder import Builder
from sdbr.schedule.build import build

import numpy as np

from benchmarks.stats import spread

SIZES = (10, 100, 1_000, 10_000, 100_000)
BUILD_SIZES = (1_000, 10_000, 100_000)
OPS_PER_SAMPLE = 200_000
ROUNDS = 21


def repeated(op: str, n: int, size: int = 1) -> Executable:
    """Return a program of n equal ops on arrays of `size` elements, prepared and bound."""
    builder = Builder(BufferTable())
    table = builder.table
    rows = [table.bound((size,), np.float32, name) for name in "xyz"]
    n_inputs = {"nop": 0, "add": 2, "multiply": 2}.get(op, 1)
    for _ in range(n):
        builder.emit(op, rows[:n_inputs], [] if op == "nop" else rows[2:])
    program, _ = build(builder.instructions, table, rows, "repeated", True)
    if len(program) != n:
        raise RuntimeError(f"{len(program)} of {n} ops are left: a pass has removed some")
    memory = Memory(len(table.slots), 0)
    for row in rows:
        memory.bind(row.slot.index, np.full(size, 0.5, np.float32))
    return make_executable(program, memory)


def dispatch() -> list[dict[str, Any]]:
    """Return one record per op and program length; times in nanoseconds per op."""
    return [_dispatch(op, n) for op in ("add", "nop") for n in SIZES]


def _dispatch(op: str, n: int) -> dict[str, Any]:
    executable = repeated(op, n)
    calls = max(1, OPS_PER_SAMPLE // n)
    loops, runs, baselines = [], [], []
    executable.run()
    for _ in range(ROUNDS):
        # Medians: a mean over many short loops is what the scheduler makes of it.
        baselines.append(median(dispatch_baseline(executable) for _ in range(calls)))
        loops.append(median(loop_seconds(executable) for _ in range(calls)))
        start = perf_counter()
        for _ in range(calls):
            executable.run()
        runs.append((perf_counter() - start) / calls)
    differences = [1e9 * (a - b) / n for a, b in zip(loops, baselines, strict=True)]
    found = spread(differences)
    return {
        "op": op,
        "n": n,
        "dispatch_ns": found.median,
        "dispatch_p10_ns": found.p10,
        "dispatch_p90_ns": found.p90,
        "kernel_ns": 1e9 * spread(baselines).median / n,
        "loop_ns": 1e9 * spread(loops).median / n,
        "run_ns": 1e9 * spread(runs).median / n,
    }


def build_times() -> list[dict[str, Any]]:
    """Return passes + memory plan + assembly + preparation, in microseconds per op."""
    return [_build(n) for n in BUILD_SIZES]


def _build(n: int) -> dict[str, Any]:
    builder = Builder(BufferTable())
    x = builder.table.bound((1,), np.float32, "x")
    y = x
    for _ in range(n):
        y = builder.elementwise("add", x, y)
    start = perf_counter()
    program, _ = build(builder.instructions, builder.table, [y], "chain", True)
    planned = perf_counter()
    memory = Memory(len(builder.table.slots), 0)
    memory.bind(x.slot.index, np.ones(1, np.float32))
    make_executable(program, memory)
    prepared = perf_counter()
    return {
        "n": n,
        "plan_us": 1e6 * (planned - start) / n,
        "prepare_us": 1e6 * (prepared - planned) / n,
        "total_us": 1e6 * (prepared - start) / n,
    }
