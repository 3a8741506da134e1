"""What comparing what a call reads from outside adds to it: ``python -m benchmarks.guards``.

CPU time of a call, least over turns in which the cases follow each other, and what it has more
than the same call that reads nothing.
"""

from __future__ import annotations

import argparse
import collections
import os
from collections.abc import Callable
from time import thread_time

import sdbr

import chainer
import chainer.functions as F
import numpy as np

X = np.ones((4, 4), np.float32)
ROWS = np.array([1, 5, 70, 900])


def _nothing() -> Callable:
    return sdbr.static_graph(lambda x: F.relu(x) * 2)


def _list() -> Callable:
    widths = [float(i) for i in range(18)]
    return sdbr.static_graph(lambda x: F.relu(x) * widths[2])


def _dict() -> Callable:
    options = {"scale": 2.0, "name": "relu", "deep": True}
    return sdbr.static_graph(lambda x: F.relu(x) * options["scale"])


def _namespace() -> Callable:
    options = argparse.Namespace(scale=2.0, name="relu", deep=True)
    return sdbr.static_graph(lambda x: F.relu(x) * options.scale)


class _Settings:
    def __init__(self, n: int):
        self.scale = 2.0
        self.history = [float(i) for i in range(n)]


def _unread_list() -> Callable:
    settings = _Settings(100_000)
    return sdbr.static_graph(lambda x: F.relu(x) * settings.scale)


class _Agent:
    def __init__(self, n: int):
        self.gamma = 2.0
        one = (np.zeros(4, "f"), 1, 0.5)
        self.replays: collections.deque = collections.deque([one] * n, n)

    def target(self, x):
        return F.relu(x) * self.gamma


def _unread_buffer() -> Callable:
    agent = _Agent(10_000)
    return sdbr.static_graph(lambda x: agent.target(x))


def _read_buffer() -> Callable:
    agent = _Agent(10_000)
    return sdbr.static_graph(lambda x: F.relu(x) * (2.0 if agent.replays else 1.0))


class _Words(chainer.Chain):
    def __init__(self):
        super().__init__()
        self.vocab = {f"word {i}": i for i in range(50_000)}

    def forward(self, x):
        return F.relu(x) * float(len(self.vocab))


def _vocabulary() -> Callable:
    return sdbr.static_graph(_Words())


def _table() -> Callable:
    tables = {"rows": np.ones((1_000_000 // 4, 4), np.float32)}
    return sdbr.static_graph(lambda x: F.relu(x) * tables["rows"][ROWS])


def _environment() -> Callable:
    os.environ["BENCHMARK_SCALE"] = "2"
    return sdbr.static_graph(lambda x: F.relu(x) * float(os.environ.get("BENCHMARK_SCALE", "1")))


CASES = {
    "nothing": _nothing,
    "a list of 18": _list,
    "a dict of 3": _dict,
    "a Namespace of 3": _namespace,
    "an attribute beside an unread list of 100,000": _unread_list,
    "an attribute beside an unread buffer of 10,000": _unread_buffer,
    "whether a buffer of 10,000 has anything": _read_buffer,
    "len() of a vocabulary of 50,000": _vocabulary,
    "4 rows of a table of 4 MB": _table,
    "a variable of the environment": _environment,
}


def costs(rounds: int, seconds: float) -> dict[str, float]:
    """Least microseconds of CPU time of one call, per case."""
    calls = {name: make() for name, make in CASES.items()}
    for call in calls.values():
        for i in range(8):
            call(X + i)  # other data: what a constant is made from is no argument
    counts = dict.fromkeys(calls, 1)
    least: dict[str, float] = {}
    for _ in range(rounds):
        for name, call in calls.items():
            n = counts[name]
            start = thread_time()
            for _ in range(n):
                call(X)
            spent = thread_time() - start
            least[name] = min(least.get(name, np.inf), 1e6 * spent / n)
            if spent < seconds / 2:
                counts[name] = n * 2
    for name, call in calls.items():
        done = call.schedule_manager.statistics
        assert done.replays > done.traces, f"{name}: not replayed"
    return least


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=0.02, help="of one turn of one case")
    options = parser.parse_args()
    chainer.config.sdbr_audit = "off"
    with chainer.using_config("enable_backprop", False):
        least = costs(options.rounds, options.seconds)
    for name, spent in least.items():
        print(f"{name:48}{spent:10.2f} us{spent - least['nothing']:+12.2f} us")


if __name__ == "__main__":
    main()
