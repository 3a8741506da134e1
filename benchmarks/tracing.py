"""What it costs to become static: ``python -m benchmarks.tracing [PART ...] [--json FILE]``.

The first call (traced), the second (its programs are built) and later ones against define-by-run,
in processor time without audits, or with one in each of them. Each round makes a static and a plain
model of classes that were never seen before, and lets their calls run in turn; a first round, which
pays for imports, is not counted. *keys* are calls whose batch is of another size each time, up to
the 16th and after it.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import itertools
import json
import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import sdbr

import chainer
import numpy as np

from benchmarks import machine

LATER = 5  # calls after the second
KEYS = 32  # calls with a new key each
SEEN = 16  # after so many of them static has to be as good as define-by-run

Run = Callable[[tuple], Any]
Batches = Iterator[tuple]


def batches(*shape: int) -> Batches:
    """Inputs and labels, other ones each time."""
    rng = np.random.RandomState(0)
    while True:
        yield rng.randn(*shape).astype("f"), rng.randint(0, 4, shape[:-1]).astype("i")


def new_sizes() -> Batches:
    """Inputs and labels of another batch size each time."""
    for n in itertools.count(2):
        yield next(batches(n, 16))


def step(make: Callable[[Any], chainer.Chain], static: bool) -> Run:
    """A whole training step of a model of classes that nobody has seen."""
    model, optimizer = make(load()), chainer.optimizers.Adam()
    if static:
        model, optimizer = sdbr.static_graph(model), sdbr.static_optimizer(optimizer)
    optimizer.setup(model)
    return lambda batch: optimizer.update(model, *batch)


def call(make: Callable[[Any], chainer.Chain], static: bool) -> Run:
    """A call alone; what it returns is let go of outside of the clock."""
    model = make(load())
    model = sdbr.static_graph(model) if static else model
    return lambda batch: model(*batch)


def load() -> Any:
    """The module of the models, anew."""
    path = Path(__file__).with_name("traced_models.py")
    spec = importlib.util.spec_from_file_location("traced_models", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cases() -> Iterator[tuple[str, str, Callable[[bool], Run], Callable[[], Batches], int]]:
    """Part, name, what makes a run, what makes its batches, how many calls."""
    for n in (2, 20, 200):
        yield (
            "mlp",
            f"MLP of {n} layers, whole step",
            lambda static, n=n: step(lambda models: models.MLP(n), static),
            lambda: batches(3, 16),
            2 + LATER,
        )
    for n in (5, 50, 500):
        yield (
            "lstm",
            f"LSTM of {n} steps, whole step",
            lambda static: step(lambda models: models.LSTM(), static),
            lambda n=n: batches(n, 3, 8),
            2 + LATER,
        )
    for n in (1, 100, 1000):
        yield (
            "outputs",
            f"call with {n} results",
            lambda static, n=n: call(lambda models: models.Outputs(n), static),
            lambda: ((x,) for x, _ in batches(3, 16)),
            2 + LATER,
        )
    yield (
        "keys",
        "MLP of 2 layers, whole step, new key each time",
        lambda static: step(lambda models: models.MLP(2), static),
        new_sizes,
        KEYS,
    )


def timed(run: Run, batch: tuple) -> float:
    """Processor seconds of one call."""
    start = time.process_time()
    result = run(batch)
    elapsed = time.process_time() - start
    del result
    return elapsed


def one_round(make: Callable[[bool], Run], source: Batches, n: int) -> tuple[list, list]:
    """Seconds of `n` calls, define-by-run and static, in turn."""
    plain, static = make(False), make(True)
    gc.collect()
    pairs = [(timed(plain, b), timed(static, b)) for b in itertools.islice(source, n)]
    return [p for p, _ in pairs], [s for _, s in pairs]


def measure(make: Callable, source: Callable[[], Batches], n: int, options: Any) -> list:
    """Rounds until the time is over, at least `options.rounds` of them."""
    rounds: list = []
    end = time.monotonic() + options.seconds
    one_round(make, source(), n)
    while len(rounds) < options.rounds or time.monotonic() < end:
        rounds.append(one_round(make, source(), n))
    return rounds


def summary(rounds: list, part: str) -> dict[str, Any]:
    """Milliseconds of define-by-run but for its first call, and of static calls by place."""
    plain = [p[1:] for p, _ in rounds]
    if part == "keys":
        spans = {"call 1": (0, 1), "2 to 16": (1, SEEN), "17 to 32": (SEEN, KEYS)}
    else:
        spans = {"first": (0, 1), "second": (1, 2), "later": (2, 2 + LATER)}
    found: dict[str, Any] = {"rounds": len(rounds), "define-by-run": _of(plain)}
    for name, (a, b) in spans.items():
        found[name] = _of([s[a:b] for _, s in rounds], statistics.mean if part == "keys" else min)
    return found


def _of(rounds: list[list[float]], within: Callable = min) -> dict[str, float]:
    """Over the rounds, the least and the median; of a round what `within` says."""
    each = [1e3 * within(times) for times in rounds]
    return {"least": min(each), "median": statistics.median(each)}


def row(name: str, found: dict[str, Any]) -> str:
    """A line of the table."""
    plain = found["define-by-run"]
    cells = [name, f"{plain['least']:.3g} ms"]
    for label, times in found.items():
        if label in ("rounds", "define-by-run"):
            continue
        ratios = [times[kind] / plain[kind] for kind in ("least", "median")]
        cells.append(f"{label}: {times['least']:.3g} ms, {ratios[0]:.2f} x ({ratios[1]:.2f})")
    return f"| {' | '.join(cells)} |"


def main(argv: list[str] | None = None) -> int:
    """Measure, print, and write JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tracing", description=__doc__)
    parser.add_argument("parts", nargs="*", help="mlp, lstm, outputs, keys; all by default")
    parser.add_argument("--only", default="", help="cases with this in their names")
    parser.add_argument("--rounds", type=int, default=5, help="of each case, at least")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each case, at least")
    parser.add_argument("--json", help="file for the results")
    parser.add_argument("--audits", action="store_true", help="every replay is audited")
    options = parser.parse_args(argv)
    chainer.global_config.sdbr_audit = 1e9 if options.audits else "off"
    warnings.simplefilter("ignore", sdbr.SdbrWarning)  # of keys that keep changing
    results = []
    print("| case | define-by-run | least, and its ratio to define-by-run (ratio of medians) | | |")
    print("| --- | --- | --- | --- | --- |")
    for part, name, make, source, n in cases():
        if options.only not in name or (options.parts and part not in options.parts):
            continue
        found = summary(measure(make, source, n, options), part)
        results.append({"part": part, "case": name, "milliseconds": found})
        print(row(name, found), flush=True)
    if options.json:
        facts = {"machine": machine.describe(), "threads": os.environ.get("OMP_NUM_THREADS")}
        with open(options.json, "w") as file:
            json.dump({**facts, "results": results}, file, indent=1)
            file.write("\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
