"""Prints the table of docs/examples.md: ``python -m benchmarks.examples [NAME ...]``."""

from __future__ import annotations

import os

for _name in ("OPENBLAS", "MKL", "BLIS", "OMP", "VECLIB_MAXIMUM"):
    os.environ.setdefault(f"{_name}_NUM_THREADS", "1")

import argparse  # noqa: E402
import statistics  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
import warnings  # noqa: E402

import sdbr  # noqa: E402, F401  (first: it makes Chainer importable)

import numpy as np  # noqa: E402

from benchmarks import machine  # noqa: E402
from benchmarks.examples import agents, images, sequences  # noqa: E402
from benchmarks.examples.example import Example, Static  # noqa: E402

EXAMPLES = [*images.EXAMPLES, *sequences.EXAMPLES, *agents.EXAMPLES]
FIRST = 6  # iterations before the clock runs: traced ones, and first replays
LOOKED_AT = 3  # after so many of them parameters are compared
#: Parameters, by their norms: what is grossly wrong. A relu that flips by rounding moves gradients
#: of a small batch by percents; tests/examples and tests/networks look closely, in float64 too.
CLOSE = 0.1


def main(arguments: list[str] | None = None) -> int:
    """Measure what is asked for and print a row of each; 1 where results differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.examples", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names; all examples by default")
    parser.add_argument("--rounds", type=int, default=7, help="turns of both; default 7")
    parser.add_argument("--seconds", type=float, default=0.1, help="of one turn; default 0.1")
    options = parser.parse_args(arguments)
    asked = [e for e in EXAMPLES if not options.names or any(n in e.name for n in options.names)]
    if not asked:
        parser.error(f"no example is called like {' or '.join(options.names)}")
    found = machine.describe()
    print(f"{found['processor']}, {found['cores']} cores; Python {found['python']}, ", end="")
    print(f"NumPy {np.__version__}; load {os.getloadavg()[0]:.1f}\n")
    print("| example | what is added | traced, replayed | Python ops | Chainer | sdbr | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    differ = [e.name for e in asked if not measure(e, options.rounds, options.seconds)]
    if differ:
        print(f"other parameters than define-by-run: {', '.join(differ)}", file=sys.stderr)
    return int(bool(differ))


def measure(example: Example, rounds: int, seconds: float) -> bool:
    """Print the row of an example; whether both ways have trained the same."""
    sides, trained = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for on in (False, True):
            static = Static(on)
            np.random.seed(0)
            step, links = example.prepare(static)
            for i in range(FIRST):
                step()
                if i == LOOKED_AT - 1:
                    trained.append([p.array.copy() for link in links for p in link.params()])
            sides.append((static, step))
        counts = [max(1, round(seconds / _seconds(step, 1))) for _, step in sides]
        before = sides[1][0].counts()
        # In turns, so that what slows the machine down slows both.
        times = [[_seconds(s[1], n) / n for s, n in zip(sides, counts, strict=True)]
                 for _ in range(rounds)]  # fmt: skip
    after = sides[1][0].counts()
    plain, ours = (1e3 * statistics.median(t) for t in zip(*times, strict=True))
    calls = f"{after['traces']}, {after['replays']}"
    if after["define_by_run_calls"]:
        calls += f", {after['define_by_run_calls']}"
    ops = (after["python_ops"] - before["python_ops"]) / (rounds * counts[1])
    print(
        f"| {example.name} | {example.added} | {calls} | {ops:.3g} | "
        f"{plain:.3g} | {ours:.3g} | {plain / ours:.1f} |",
        flush=True,
    )
    return all(
        np.linalg.norm(a - b) <= CLOSE * max(np.linalg.norm(a), 1e-30)
        for a, b in zip(*trained, strict=True)
    )


def _seconds(step, n: int) -> float:
    start = time.perf_counter()
    for _ in range(n):
        step()
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
