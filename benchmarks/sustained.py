"""Whether training slows down: ``python -m benchmarks.sustained [CASE ...] [--json FILE]``.

Trains without a break, and keeps the weights and the optimizer's state as they are at steps 100,
1,000 and 10,000. Then it goes on from each of them for a few steps, in turn, again and again: the
processor time of a step, least of the rounds, so that what else the machine does counts for
nothing. ``gru`` is no case of the other benchmarks: a GRU over 200 steps, whose gradients vanish.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import sdbr  # noqa: F401  (first: makes Chainer importable)

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L

from benchmarks import cases, machine
from benchmarks.cases.base import Case
from benchmarks.peers import PEERS
from benchmarks.peers.chainer_peer import SDBR, ChainerRunner

STEPS = (100, 1_000, 10_000)
#: Those that make 10,000 steps within minutes.
SMALL = ("mlp_tiny", "mlp_digits", "deep_chain", "dqn_cartpole", "gru")
LIMIT = 1.02


class Recurrent(chainer.Chain):
    """A GRU over 200 steps, classified at the last one."""

    def __init__(self, n_in: int = 8, n_units: int = 32):
        super().__init__()
        with self.init_scope():
            self.gru = L.StatelessGRU(n_in, n_units)
            self.out = L.Linear(n_units, 2)

    def forward(self, x, t):
        h = np.zeros((len(x), self.out.W.shape[1]), np.float32)
        for k in range(x.shape[1]):
            h = self.gru(h, x[:, k])
        return F.softmax_cross_entropy(self.out(h), t)


class Gru(ChainerRunner):
    """Trains `Recurrent` by Adam."""

    def __init__(self) -> None:
        super().__init__(Case("gru", "GRU", "train", (8, 32, 2), 8), SDBR)
        random = np.random.RandomState(0)
        np.random.seed(0)
        x = random.randn(8, 8, 200, 8).astype("f")
        self.batches = list(zip(x, random.randint(0, 2, (8, 8)).astype("i"), strict=True))
        self.with_optimizer(chainer.optimizers.Adam(), self.static(Recurrent()))

    def run(self, part: str, n: int) -> None:
        for k in range(n):
            self.optimizer.update(self.model, *self.batches[k % len(self.batches)])

    def check(self, part: str) -> list[float]:
        raise NotImplementedError


class Age:
    """What a training is at one step: weights, persistent values, the optimizer's state."""

    def __init__(self, runner: Any):
        self.optimizer = runner.optimizer
        self.t = self.optimizer.t
        self.rules = [(p.update_rule, p.update_rule.t) for p in runner.model.params()]
        arrays = [p.array for p in runner.model.params()]
        arrays += [x for rule, _ in self.rules for x in (rule.state or {}).values()]
        arrays += [
            link.__dict__[name] for link in runner.model.links() for name in link._persistent
        ]
        self.arrays = [(x, x.copy()) for x in arrays if isinstance(x, np.ndarray)]

    def take_up(self) -> None:
        """Go back, or forward, to it."""
        for array, then in self.arrays:
            array[...] = then
        for rule, t in self.rules:
            rule.t = t
        self.optimizer.t = self.t


def measure(name: str, steps: tuple[int, ...], rounds: int, seconds: float) -> dict[int, float]:
    """Seconds of processor time of a step, after as many steps."""
    runner = Gru() if name == "gru" else PEERS["sdbr-cython"].make(cases.load(name))
    part = runner.case.parts[0]
    ages: dict[int, Age] = {}
    done = 0
    for step in steps:
        runner.run(part, step - done)
        done = step
        ages[step] = Age(runner)
    start = time.process_time()
    runner.run(part, 3)
    n = max(1, round(seconds / max(time.process_time() - start, 1e-6) * 3))
    best = dict.fromkeys(ages, float("inf"))
    for k in range(rounds):
        # The order turns, so that what lies in caches is no one's advantage.
        for step in steps if k % 2 else steps[::-1]:
            ages[step].take_up()
            runner.run(part, 2)
            start = time.process_time()
            runner.run(part, n)
            best[step] = min(best[step], (time.process_time() - start) / n)
    return best


def main(argv: list[str] | None = None) -> int:
    """Measure, print, and write JSON; 1 where a case has slowed down."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sustained", description=__doc__)
    parser.add_argument("cases", nargs="*", default=SMALL, help=f"default: {' '.join(SMALL)}")
    parser.add_argument("--json", help="file for the results")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=0.02, help="of each turn")
    parser.add_argument("--steps", type=int, default=STEPS[-1], help="the last of them")
    parser.add_argument("--keep", action="store_true", help="denormals are kept")
    options = parser.parse_args(argv)
    if options.keep:
        chainer.global_config.sdbr_flush_denormals = False
    steps = tuple(sorted({step for step in STEPS if step < options.steps} | {options.steps}))
    results = []
    for name in options.cases:
        times = measure(name, steps, options.rounds, options.seconds)
        ratio = times[steps[-1]] / times[steps[0]]
        results.append({"case": name, "seconds": times, "ratio": ratio})
        shown = "  ".join(f"step {step:,}: {1e6 * t:,.2f} us" for step, t in times.items())
        print(f"{name}: {shown}  ratio {ratio:.3f}", flush=True)
    if options.json:
        machine.save(options.json, results=results)
    return int(any(result["ratio"] > LIMIT for result in results))


if __name__ == "__main__":
    raise SystemExit(main())
