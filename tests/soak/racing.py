"""Another thread gets in the way of a training: ``python -m tests.soak.racing [--only RACE]``.

Runs in a process of its own (`test_races.py`), where a fault costs no other test; the last line
that was printed names the race. Both threads have done so much at least, however busy the machine
is; where they never met, that shows no more than that neither breaks what the other one finds.
"""

from __future__ import annotations

import argparse
import collections
import sys
import threading
import time
import warnings

import sdbr  # noqa: F401  (first: it makes Chainer importable)

import chainer
import numpy as np

from tests.harness.threads import LIMIT, attempts, join, start, switch_interval
from tests.tolerances import SUMS

from .races import RACES, Training
from .together import watched

#: Never what a race may end in: something in C was asked for what is not there.
FAULTS = (SystemError, MemoryError)

#: Steps and rounds of a race, at least.
FEWEST = 4


def race(name: str, seconds: float) -> tuple[int, int, collections.Counter]:
    """Train while another thread does its mischief; steps, rounds, errors by type."""
    training = Training()
    for _ in range(4):
        training.train()
    over = threading.Event()
    errors: collections.Counter = collections.Counter()

    def attempt(work):
        try:
            work()
        except FAULTS:
            raise
        except Exception as error:
            errors[type(error).__name__] += 1

    def mischief():
        while not over.is_set():
            training.rounds += 1
            attempt(lambda: RACES[name](training))
            time.sleep((0, 0, 0.0005, 0.003)[training.rounds % 4])

    faults: list = []

    def watch_over(thread):
        try:
            thread()
        except BaseException as error:
            faults.append(error)

    steps = 0
    with watched(4 * LIMIT + seconds), switch_interval(1e-6):
        thread = start(watch_over, mischief)
        try:
            end = time.monotonic() + seconds
            for steps in attempts(f"{FEWEST} steps and rounds", seconds + LIMIT):
                few = min(steps, training.rounds) < FEWEST
                if faults or (not few and time.monotonic() >= end):
                    break
                attempt(training.train)
        finally:
            over.set()
            join(thread)
    if faults:
        raise faults[0]
    settle(training)
    return steps, training.rounds, errors


def settle(training: Training) -> None:
    """Once nobody is in the way everything is right again."""
    for p in training.params:
        if not np.isfinite(p.array).all():
            p.array = np.zeros_like(p.array)
    training.optimizer.setup(training.model)
    for _ in range(4):
        training.train()
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        loss = training.model(training.x, training.t)
        with chainer.using_config("use_static_graph", False):
            plain = training.model(training.x, training.t)
    assert abs(loss.array - plain.array) <= SUMS * max(abs(plain.array), 1e-3), (loss, plain)


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=0.8, help="per race")
    parser.add_argument("--only", nargs="*", choices=list(RACES), default=list(RACES))
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    for name in options.only:
        print(name, end=" ", flush=True)
        steps, rounds, errors = race(name, options.seconds)
        print(steps, rounds, dict(errors), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
