"""Every native function against Chainer's own: ``python -m benchmarks.ops [--only NAMES]``.

Each function of Chainer that is native runs at three sizes (16 KB; 8 MB; 1 MB whose lengths are
primes, off its alignment) as define-by-run and as a static call of nothing else, in turn, on one
thread: a call with its graph, then the backward to all inputs. The clock is that of the thread, and
the shortest time of each counts. The ratio is static over define-by-run: above 1, the replay is
slower than NumPy.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sdbr

import numpy as np

from benchmarks import machine
from benchmarks.ops import arrays, elements, layers, timing
from benchmarks.ops.case import SIZES, Case
from benchmarks.stats import seconds_as_text

CASES = [*elements.CASES, *arrays.CASES, *layers.CASES]
#: Ratios are counted between these.
BOUNDS = (0.25, 0.5, 0.75, 1.0, 1.25, 2.0, float("inf"))


def record(case: Case, size: str, dtype: str, seconds: float) -> dict[str, Any]:
    """What is written to the JSON file of one case at one size."""
    found = timing.measure(case, SIZES[size], dtype, seconds)
    row: dict[str, Any] = {"case": case.name, "size": size, "rounds": found.rounds}
    for name in ("forward", "backward", "both"):
        static, plain = (getattr(times, name) for times in (found.static, found.plain))
        row[name] = {
            "static_us": round(static * 1e6, 2),
            "plain_us": round(plain * 1e6, 2),
            "ratio": round(static / plain, 3) if plain else None,
        }
    row["worst"] = max(row[name]["ratio"] or 0.0 for name in ("forward", "backward"))
    if found.python_ops:
        row["python_ops"] = found.python_ops
    return row


def line(row: dict[str, Any]) -> str:
    """One row of the table."""
    cells = [row["case"], row["size"]]
    for name in ("both", "forward", "backward"):
        ratio = row[name]["ratio"]
        cells.append("-" if ratio is None else f"{ratio:.2f}")
    both = row["both"]
    cells += [seconds_as_text(both[key] * 1e-6) for key in ("plain_us", "static_us")]
    return "| " + " | ".join(cells) + " |"


HEAD = (
    "| function | size | ratio | call | backward | define-by-run | static |\n"
    "| --- | --- | --- | --- | --- | --- | --- |"
)


def table(rows: list[dict[str, Any]]) -> str:
    """All rows, the largest ratio first."""
    ordered = sorted(rows, key=lambda row: row["both"]["ratio"], reverse=True)
    return "\n".join([HEAD, *map(line, ordered)])


def counts(rows: list[dict[str, Any]]) -> str:
    """How many cases of each size lie between which ratios."""
    names = ["at most 0.25"]
    names += [f"to {b:g}" if b < float("inf") else "above" for b in BOUNDS[1:]]
    lines = [f"| size | {' | '.join(names)} |", "| --- " * (len(names) + 1) + "|"]
    for size in SIZES:
        ratios = np.array([row["both"]["ratio"] for row in rows if row["size"] == size])
        found = np.bincount(np.searchsorted(BOUNDS, ratios), minlength=len(BOUNDS))
        lines.append(f"| {size} | " + " | ".join(map(str, found)) + " |")
    return "\n".join(lines)


def chosen(only: str | None, sizes: Sequence[str]) -> list[tuple[Case, str]]:
    """Cases whose name begins with or, behind a ``~``, contains a text; each at its sizes."""
    texts = only.split(",") if only else [""]
    wanted = [
        case
        for case in CASES
        if any(t[1:] in case.name if t[:1] == "~" else case.name.startswith(t) for t in texts)
    ]
    return [(case, size) for case in wanted for size in sizes]


def measure(pairs: list[tuple[Case, str]], dtype: str, seconds: float) -> list[dict[str, Any]]:
    """All records; progress goes to standard error."""
    rows = []
    with contextlib.ExitStack() as stack:
        for context in timing.settings(dtype):
            stack.enter_context(context)
        stack.enter_context(np.errstate(all="ignore"))
        for i, (case, size) in enumerate(pairs):
            rows.append(record(case, size, dtype, seconds))
            print(f"{i + 1}/{len(pairs)} {line(rows[-1])}", file=sys.stderr)
            gc.collect()
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the JSON file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ops", description=__doc__)
    parser.add_argument("--only", help="beginnings of names, or ~ and a part, with commas between")
    parser.add_argument("--sizes", default=",".join(SIZES), help="of cache, memory, odd")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each case and size")
    parser.add_argument("--dtype", default="f", choices="fd")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(argv)
    pairs = chosen(options.only, options.sizes.split(","))
    if not pairs:
        parser.error(f"--only: no function {options.only!r}")
    load = machine.load()
    rows = measure(pairs, options.dtype, options.seconds)
    print(f"{table(rows)}\n\n{counts(rows)}")
    if options.json:
        found = {
            "machine": machine.describe(),
            "load_at_start": load,
            "versions": {"sdbr": sdbr.__version__, "numpy": np.__version__},
            "dtype": np.dtype(options.dtype).name,
            "seconds": options.seconds,
            "records": rows,
        }
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
