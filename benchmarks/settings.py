"""Threads, branches and denormals: ``python -m benchmarks.settings [--json FILE]``.

The time of a whole training step under each setting, in turn, best of many; in one process, so
the machine that one of them finds is the machine of all. *threads* compares 1 with 2,
*branches* 2 threads with and without the pass, *denormals* steps whose first moment has become
denormal (one fixed batch, gradients that vanish) with and without flushing them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import sdbr

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L

from benchmarks import machine


class Net(chainer.Chain):
    """A chain whose loss is given as a function."""

    def __init__(self, loss: Callable, **links: chainer.Link):
        super().__init__()
        with self.init_scope():
            for name, link in links.items():
                setattr(self, name, link)
        self._loss = loss

    def forward(self, *args: Any) -> chainer.Variable:
        """The loss of a batch."""
        return self._loss(self, *args)


def mlp(sizes: tuple[int, ...], batch: int) -> tuple[Net, tuple]:
    """Linear layers with ReLU, softmax cross entropy."""

    def loss(self, x, t):
        h = x
        for i in range(len(sizes) - 1):
            h = self[f"l{i}"](h if i == 0 else F.relu(h))
        return F.softmax_cross_entropy(h, t)

    links = {f"l{i}": L.Linear(a, b) for i, (a, b) in enumerate(pairwise(sizes))}
    net = Net(loss, **links)
    rng = np.random.RandomState(0)
    return net, (rng.randn(batch, sizes[0]).astype("f"), rng.randint(0, sizes[-1], batch, "i"))


def lenet(batch: int = 64) -> tuple[Net, tuple]:
    """Two convolutions, two linear layers."""

    def loss(self, x, t):
        h = F.max_pooling_2d(F.relu(self.c1(x)), 2)
        h = F.max_pooling_2d(F.relu(self.c2(h)), 2)
        return F.softmax_cross_entropy(self.l2(F.relu(self.l1(h))), t)

    net = Net(
        loss,
        c1=L.Convolution2D(1, 20, 5),
        c2=L.Convolution2D(20, 50, 5),
        l1=L.Linear(800, 500),
        l2=L.Linear(500, 10),
    )
    rng = np.random.RandomState(0)
    return net, (rng.randn(batch, 1, 28, 28).astype("f"), rng.randint(0, 10, batch, "i"))


def actor_critic(units: int, batch: int) -> tuple[Net, tuple]:
    """Two towers of the same size, as in PPO."""

    def loss(self, x, action, advantage, value):
        policy = self.pi(F.tanh(self.a2(F.tanh(self.a1(x)))))
        critic = self.v(F.tanh(self.c2(F.tanh(self.c1(x)))))
        log_p = F.select_item(F.log_softmax(policy), action)
        return F.mean_squared_error(critic[:, 0], value) - F.mean(log_p * advantage)

    links = {name: L.Linear(units, units) for name in ("a2", "c2")}
    links.update(a1=L.Linear(8, units), c1=L.Linear(8, units))
    net = Net(loss, pi=L.Linear(units, 4), v=L.Linear(units, 1), **links)
    rng = np.random.RandomState(0)
    floats = [rng.randn(batch).astype("f") for _ in range(2)]
    return net, (rng.randn(batch, 8).astype("f"), rng.randint(0, 4, batch, "i"), *floats)


def step_of(make: Callable[[], tuple[Net, tuple]], **settings: Any) -> Callable[[], float]:
    """A function that makes one step under these entries of the configuration, and times it."""
    np.random.seed(0)
    net, batch = make()
    model = sdbr.static_graph(net)
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam())
    optimizer.setup(model)

    def step() -> float:
        for name, value in settings.items():
            setattr(chainer.config, name, value)
        start = time.perf_counter()
        optimizer.update(model, *batch)
        return time.perf_counter() - start

    step.batch = batch
    for _ in range(3):
        step()
    return step


def best_of(steps: dict[str, Callable[[], float]], seconds: float) -> dict[str, float]:
    """Microseconds of each step: the best of as many as fit, in turn."""
    times = {name: step() for name, step in steps.items()}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, step in steps.items():
            times[name] = min(times[name], *(step() for _ in range(5)))
    return {name: 1e6 * t for name, t in times.items()}


def cases() -> Iterator[tuple[str, str, Callable, dict[str, dict]]]:
    """Section, name, network, and the settings that are compared."""
    one, two = {"sdbr_num_threads": 1}, {"sdbr_num_threads": 2}
    threads = {"1 thread": one, "2 threads": two}
    yield "threads", "784-1000-1000-10 [100]", lambda: mlp((784, 1000, 1000, 10), 100), threads
    yield "threads", "lenet [64]", lenet, threads
    yield "threads", "64-128-128-10 [64]", lambda: mlp((64, 128, 128, 10), 64), threads
    without = {**two, "sdbr_disabled_passes": "branches"}
    branches = {"1 thread": one, "2 threads, no branches": without, "2 threads": two}
    for units, batch in ((64, 16), (64, 64), (64, 256), (256, 64)):
        name = f"actor-critic {units} [{batch}]"
        yield "branches", name, lambda u=units, b=batch: actor_critic(u, b), branches
    flush = {
        "kept": {**one, "sdbr_flush_denormals": False},
        "flushed": {**one, "sdbr_flush_denormals": True},
    }
    yield (
        "denormals",
        "512-512-512-10 [64], half of the inputs dead",
        lambda: mlp((512, 512, 512, 10), 64),
        flush,
    )


def age(step: Callable[[], float], n: int = 1100) -> Callable[[], float]:
    """Let half of the inputs die, and go on until what only decays has become denormal."""
    step.batch[0][:, 256:] = 0
    for _ in range(n):
        step()
    return step


def main(argv: list[str] | None = None) -> int:
    """Measure, print, and write JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.settings", description=__doc__)
    parser.add_argument("--json", help="file for the results")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each case")
    parser.add_argument("--only", help="a section: threads, branches or denormals")
    options = parser.parse_args(argv)
    results = []
    for section, name, make, settings in cases():
        if options.only not in (None, section):
            continue
        steps = {label: step_of(make, **entries) for label, entries in settings.items()}
        if section == "denormals":
            steps = {label: age(step) for label, step in steps.items()}
        times = best_of(steps, options.seconds)
        results.append({"section": section, "case": name, "microseconds": times})
        shown = ", ".join(f"{label} {value:.1f} us" for label, value in times.items())
        print(f"{section}: {name}: {shown}")
    if options.json:
        machine.save(options.json, results=results)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
