"""Calls and steps that come in turn against the same alone: ``python -m benchmarks.turns``.

A small network whose batches have 1 to 64 sizes in turn, or go 2 or 4 ways that a value decides
about in turn: processor time of a turn, least of all rounds, against the sum of each of its calls
repeated by itself in the same rounds. Everything is a replay.
"""

from __future__ import annotations

import argparse
import gc
import time
import warnings
from collections.abc import Callable
from typing import Any

import sdbr

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L

from benchmarks import machine

SIZES = (1, 2, 8, 64)
WAYS = (2, 4)


class Net(chainer.Chain):
    """Layers and a loss."""

    def __init__(self, width: int) -> None:
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(16, width)
            self.l2 = L.Linear(width, 4)

    def forward(self, x: Any, t: Any) -> chainer.Variable:
        """The loss of a batch."""
        return F.softmax_cross_entropy(self.l2(F.relu(self.l1(x))), t)


class Asks(Net):
    """Goes one of several ways."""

    def forward(self, x, t):
        """The loss; its last layer is scaled by what the batch begins with."""
        h = self.l2(F.relu(self.l1(x)))
        return F.softmax_cross_entropy(h * (1 + int(x[0, 0])), t)


def batch(rows: int, way: int) -> tuple:
    """Inputs and labels."""
    x = np.random.RandomState(rows).randn(rows, 16).astype("f")
    x[0, 0] = way
    return x, np.zeros(rows, "i")


def runs(what: str, model: chainer.Chain) -> Callable[[tuple], Any]:
    """What makes one step or one call of a static model."""
    if what == "step":
        optimizer = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(model)
        return lambda given: optimizer.update(model, *given)
    if what == "forward":
        return lambda given: model(*given)

    def both(given):
        model.cleargrads()
        model(*given).backward()

    return both


def warm(model: chainer.Chain, run: Callable, givens: list) -> int:
    """Turns until every call of one is a replay."""
    for turn in range(1, 1000):
        before = model.schedule_manager.statistics.replays
        for given in givens:
            run(given)
        if model.schedule_manager.statistics.replays - before == len(givens) and turn > 8:
            return turn
    raise RuntimeError("there are always calls that are not replayed")


def spent(run: Callable, givens: list, times: int) -> float:
    """Processor time of going over `givens` so often, per call."""
    start = time.thread_time()
    for _ in range(times):
        for given in givens:
            run(given)
    return (time.thread_time() - start) / (times * len(givens))


def measure(what: str, width: int, givens: list, make: type, options: argparse.Namespace) -> dict:
    """Least microseconds of one call in turn and alone."""
    model = sdbr.static_graph(make(width), max_schedules=max(SIZES))
    run = runs(what, model)
    turns = warm(model, run, givens)
    done = model.schedule_manager.statistics
    before = done.replays, done.calls
    together, alone = np.inf, np.full(len(givens), np.inf)
    least = 4 if len(givens) > 1 else 1
    gc.collect()
    for _ in range(options.rounds):
        for i, given in enumerate(givens):
            spent(run, [given], 4)
            alone[i] = min(alone[i], spent(run, [given], options.times))
        spent(run, givens, least)
        n = max(least, options.times // len(givens))
        together = min(together, spent(run, givens, n))
    assert done.replays - before[0] == done.calls - before[1], "not all were replays"
    return {
        "alone": float(alone.mean()) * 1e6,
        "in turn": together * 1e6,
        "ratio": float(together / alone.mean()),
        "turns until all replay": turns,
    }


def main(argv: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--width", type=int, nargs="*", default=[16, 256], help="of the network")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--times", type=int, default=200, help="calls of one round, at least")
    parser.add_argument("--json")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    chainer.config.sdbr_audit = "off"
    found = {}
    print(f"{'':40}{'alone, us':>10}{'in turn':>10}{'ratio':>8}")
    for width in options.width:
        for what in ("step", "forward", "forward and backward"):
            cases = [(f"{n} sizes", Net, [batch(8 + i, 0) for i in range(n)]) for n in SIZES]
            cases += [(f"{n} ways", Asks, [batch(8, i) for i in range(n)]) for n in WAYS]
            for name, make, givens in cases:
                with chainer.using_config("enable_backprop", what != "forward"):
                    got = measure(what, width, givens, make, options)
                title = f"{what}, width {width}, {name}"
                found[title] = got
                print(
                    f"{title:40}{got['alone']:10.2f}{got['in turn']:10.2f}{got['ratio']:8.2f}",
                    flush=True,
                )
    if options.json:
        machine.save(options.json, cases=found)


if __name__ == "__main__":
    main()
