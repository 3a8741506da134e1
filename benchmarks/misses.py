"""Calls that no schedule serves: ``python -m benchmarks.misses [PROGRAM ...] [--json FILE]``.

Small programs whose batch size, number or state is another one in each call, or that change what
they read themselves, against plain define-by-run. Static and plain run call by call in turn; of
each call the least processor time of all rounds counts, as a sum over calls 1 to 16 and 17 to 200.
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

CALLS = 200
FIRST = 16
#: Counters that tell how calls were served.
SERVED = ("traces", "builds", "replays", "define_by_run_calls")

#: What the programs count in.
count = 0


class Counter:
    """An object that counts, and has a rate."""

    n = 0
    rate = 1.0


class MLP(chainer.Chain):
    """Three layers and a loss."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(16, 32)
            self.l2 = L.Linear(32, 32)
            self.l3 = L.Linear(32, 4)
        self.n = 1
        self.counter = Counter()
        self.sizes: list[int] = []

    def forward(self, x: Any, t: Any) -> chainer.Variable:
        """The loss of a batch."""
        return F.softmax_cross_entropy(self.l3(F.relu(self.l2(F.relu(self.l1(x))))), t)


class Argument(MLP):
    """Takes a number."""

    def forward(self, x, t, n):
        """The loss times a number."""
        return super().forward(x, t) * n


class Product(MLP):
    """Takes a number, for NumPy."""

    def forward(self, x, t, scale):
        """The loss of scaled data."""
        return super().forward(x * scale, t)


class Attribute(MLP):
    """Reads a number."""

    def forward(self, x, t):
        """The loss times an attribute."""
        return super().forward(x, t) * self.n


class Annealed(MLP):
    """Reads a number of a plain object."""

    def forward(self, x, t):
        """The loss times the number."""
        return super().forward(x, t) * self.counter.rate


class CountsGlobal(MLP):
    """Counts its calls in a global."""

    def forward(self, x, t):
        """The loss, and a call more."""
        global count
        count += 1
        return super().forward(x, t) * count


class CountsObject(MLP):
    """Counts its calls in a plain object."""

    def forward(self, x, t):
        """The loss, and a call more."""
        self.counter.n += 1
        return super().forward(x, t) * self.counter.n


class CountsClass(MLP):
    """Counts its calls in an attribute of a class."""

    def forward(self, x, t):
        """The loss, and a call more."""
        Counter.n += 1
        return super().forward(x, t) * Counter.n


class Grows(MLP):
    """Keeps the sizes of its batches."""

    def forward(self, x, t):
        """The loss, and a size more."""
        self.sizes.append(len(x))
        return super().forward(x, t) * len(self.sizes)


class Branches(MLP):
    """Goes a way that a value of the batch decides about."""

    def forward(self, x, t):
        """The loss, times a number of the batch; odd ones with another function."""
        n = int(x[0, 0])
        h = F.relu(self.l1(x))
        h = self.l2(F.tanh(h) if n % 2 else h)
        return F.softmax_cross_entropy(self.l3(F.relu(h)), t) * (1 + n)


def batch(size: int, i: int) -> tuple:
    """Inputs and labels."""
    rng = np.random.RandomState(i)
    return rng.randn(size, 16).astype("f"), rng.randint(0, 4, size, "i")


def ragged(i: int) -> int:
    """One of 40 sizes, mostly one of 8."""
    rng = np.random.RandomState(1000 + i)
    return 30 + int(rng.randint(0, 8) if rng.rand() < 0.8 else rng.randint(8, 40))


def plain(size: Callable[[int], int]) -> tuple:
    """A program whose batches have these sizes."""
    return MLP, lambda model, i: batch(size(i), i)


def directed(way: Callable[[int], int]) -> tuple:
    """A program whose batches decide like this."""

    def given(model: MLP, i: int) -> tuple:
        x, t = batch(32, i)
        x[0, 0] = way(i)
        return x, t

    return Branches, given


def numbered(model: MLP, i: int) -> tuple:
    """A batch for a model with another number."""
    model.n = i
    return batch(32, i)


def annealed(model: MLP, i: int) -> tuple:
    """A batch for a model that reads another number elsewhere."""
    model.counter.rate = 0.99**i
    return batch(32, i)


#: Class of the model, and what makes the arguments of a call.
PROGRAMS = {
    "one key": plain(lambda i: 32),
    "new batch size": plain(lambda i: 8 + i),
    "17 sizes in turn": plain(lambda i: 30 + i % 17),
    "40 sizes in turn": plain(lambda i: 30 + i % 40),
    "40 sizes at random": plain(lambda i: 30 + int(np.random.RandomState(i).randint(40))),
    "40 sizes, 8 of them often": plain(ragged),
    "new size every second call": plain(lambda i: 8 + i if i % 2 else 8),
    "int argument": (Argument, lambda model, i: (*batch(32, i), i)),
    "int attribute": (Attribute, numbered),
    "ndarray * float": (Product, lambda model, i: (*batch(32, i), 1 + i / 512)),
    "float in an object": (Annealed, annealed),
    "counter in a global": (CountsGlobal, lambda model, i: batch(32, i)),
    "counter in an object": (CountsObject, lambda model, i: batch(32, i)),
    "counter in a class": (CountsClass, lambda model, i: batch(32, i)),
    "list that grows": (Grows, lambda model, i: batch(32, i)),
    "branch, one way": directed(lambda i: 1),
    "branch, 2 ways in turn": directed(lambda i: i % 2),
    "branch, 4 ways at random": directed(lambda i: int(np.random.RandomState(i).randint(4))),
    "branch, a new way each time": directed(lambda i: i),
}


def runs(program: tuple, static: bool, step: bool) -> tuple[MLP, Callable[[tuple], Any]]:
    """A model, and what makes one step or one call of it."""
    model = program[0]()
    optimizer = chainer.optimizers.SGD(0.01)
    if static:
        model, optimizer = sdbr.static_graph(model), sdbr.static_optimizer(optimizer)
    optimizer.setup(model)
    if step:
        return model, lambda given: optimizer.update(model, *given)
    return model, lambda given: model(*given)


def measure(program: tuple, step: bool, rounds: int) -> dict:
    """Least processor time of each call, plain and static, and how the static ones were served."""
    global count
    best = np.full((2, CALLS), np.inf)
    served: dict = {}
    for _ in range(rounds):
        made = [runs(program, static, step) for static in (False, True)]
        counts = [0, 0]
        gc.collect()
        for i in range(CALLS):
            for k, (model, run) in enumerate(made):
                given = program[1](model, i)
                count = Counter.n = counts[k]  # each has its own
                start = time.thread_time()
                result = run(given)
                best[k, i] = min(best[k, i], time.thread_time() - start)
                counts[k] = max(count, Counter.n)
                del result
        statistics = made[1][0].schedule_manager.statistics
        served = {k: statistics.to_dict()[k] for k in SERVED}
    ends = {"1-16": slice(0, FIRST), "17-200": slice(FIRST, None)}
    times = {name: best[:, part].sum(1) for name, part in ends.items()}
    return {
        "plain": float(np.median(best[0])),
        **{name: float(static / plain) for name, (plain, static) in times.items()},
        **served,
    }


def main(argv: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(PROGRAMS))
    parser.add_argument("--calls", action="store_true", help="calls alone, not whole steps")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    found = {}
    print(f"{'':28}{'plain, us':>10}{'1-16':>8}{'17-200':>8}  traces  builds replays define-by-run")
    for name in options.programs or PROGRAMS:
        got = found[name] = measure(PROGRAMS[name], not options.calls, options.rounds)
        print(
            f"{name:28}{got['plain'] * 1e6:10.0f}{got['1-16']:8.2f}{got['17-200']:8.2f}"
            + "".join(f"{got[k]:8}" for k in SERVED),
            flush=True,
        )
    if options.json:
        machine.save(options.json, programs=found)


if __name__ == "__main__":
    main()
