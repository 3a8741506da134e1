"""Kernels of whole steps under Nsight Compute: the longest of each case."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from sdbr.cli.bench import find_checkout
from sdbr.cli.gpu_check.job import Job
from sdbr.cli.gpu_check.tools import LINES, find, python, run

CASES = ("mlp_mnist", "lstm_ptb")
LONGEST = 5
TIME, BYTES, REGISTERS, WARPS = METRICS = (
    "gpu__time_duration.sum",
    "dram__bytes.sum",
    "launch__registers_per_thread",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
)


def measure(job: Job) -> None:
    """Profile a step of each case."""
    tool, root = find("ncu"), find_checkout()
    if tool is None or root is None:
        missing = "ncu was not found" if tool is None else "not a source checkout"
        job.note("ncu", f"left out: {missing}")
        return
    command = [tool, "--clock-control", "none", "--profile-from-start", "off", "--csv"]
    command += ["--page", "raw", "--print-units", "base", "--target-processes", "all"]
    command += ["--metrics", ",".join(METRICS)]
    for k, case in enumerate(CASES):
        words = ["-m", "benchmarks.steps", case, "--device", "cuda", "--peer", "sdbr-uncaptured"]
        code, said = run([*command, *python(*words)], job.left() / (len(CASES) - k), root)
        try:
            job.note(case, longest(said))
        except ValueError as error:
            job.failed.append(case)
            job.note(case, {"error": str(error), "exit_code": code, "said": said[-LINES:]})


def longest(said: Sequence[str]) -> dict:
    """The kernels that take most of a step, of the table that the profiler printed.

    Returns
    -------
    dict
        ``launches`` and ``us`` of all kernels together, and the rows of the `LONGEST`, by name.

    Raises
    ------
    ValueError
        If there is no table.
    """
    start = next((k for k, line in enumerate(said) if line.startswith('"ID"')), None)
    if start is None:
        raise ValueError("the profiler printed no table")
    table = csv.DictReader(io.StringIO("\n".join(x for x in said[start:] if x.startswith('"'))))
    next(table, None)  # the units
    rows: dict[str, dict] = {}
    for line in table:
        name = line["Kernel Name"].partition("(")[0]
        row = rows.setdefault(name, {"kernel": name, "launches": 0, "us": 0.0, "bytes": 0.0,
                                     "registers": 0, "warps_pct": []})  # fmt: skip
        row["launches"] += 1
        row["us"] += _number(line[TIME]) / 1e3
        row["bytes"] += _number(line[BYTES])
        row["registers"] = max(row["registers"], int(_number(line[REGISTERS])))
        row["warps_pct"].append(_number(line[WARPS]))
    every = sorted(rows.values(), key=lambda row: -row["us"])
    for row in every:
        shares = row.pop("warps_pct")
        row["warps_pct"] = sum(shares) / len(shares)
    return {
        "launches": sum(row["launches"] for row in every),
        "us": sum(row["us"] for row in every),
        "longest": every[:LONGEST],
    }


def _number(text: str) -> float:
    return float(text.replace(",", "") or 0)
