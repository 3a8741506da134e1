"""Steps on one process and on two: ``python -m benchmarks.ranks [--rounds N] [--json FILE]``.

``--networks digits,vgg`` measures these; vgg, which takes long, only if it is named.

Starts itself by ``mpiexec`` with one rank and with two. Each trains the same networks in turns:
Chainer with ChainerMN's optimizer, the same made static, the same that sends gradients while the
backward runs, and a static optimizer that knows of no ranks (the whole step). Beside them stands
one `MPI_Allreduce` of as many floats as the network has parameters, and of sizes from 4 bytes to 64
MiB, for `python -m benchmarks.scaling`. Each rank has a batch of its own, so two ranks make twice
the work. Wall time of each step on rank 0, of which the tenth percentile counts: ranks that wait
for each other pay for all that else runs on a machine.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import sdbr

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L

from benchmarks import machine
from benchmarks.peers.chainer_networks import LeNet, Vgg

#: Bytes of the collectives that are timed by themselves.
SIZES = tuple(4 << i for i in range(0, 26, 2))


class Layers(chainer.ChainList):
    """Linear layers with ReLU between them."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*(L.Linear(a, b) for a, b in itertools.pairwise(sizes)))

    def forward(self, x):
        for link in list(self)[:-1]:
            x = F.relu(link(x))
        return self[-1](x)


#: By name: what makes a network, the shape of an example, examples in a batch.
NETWORKS: dict[str, tuple[Callable, tuple, int]] = {
    "digits": (lambda: Layers(64, 128, 128, 10), (64,), 64),
    "lenet": (LeNet, (1, 28, 28), 64),
    "mlp 784-1000-1000-10": (lambda: Layers(784, 1000, 1000, 10), (784,), 100),
    "vgg": (Vgg, (3, 32, 32), 16),
}
#: Steps in a round, and before the first.
STEPS = {"digits": (100, 20), "vgg": (3, 8)}
WAYS = ("chainer", "static", "overlap", "whole step")


def optimizer_of(way: str, communicator: Any) -> tuple[Any, Any]:
    """The optimizer of a way; what is to become of the network."""
    import chainermn

    optimizer = chainer.optimizers.Adam()
    if way != "whole step":
        optimizer = chainermn.create_multi_node_optimizer(optimizer, communicator)
    if way == "chainer":
        return optimizer, lambda model: model
    return sdbr.static_optimizer(optimizer), sdbr.static_graph


def measured(communicator: Any, rounds: int, names: list[str]) -> dict[str, Any]:
    """Seconds of everything, on this rank."""
    from mpi4py import MPI

    comm = communicator.mpi_comm

    def times_of(run: Callable[[], Any], n: int) -> list[float]:
        comm.Barrier()
        times = []
        for _ in range(n):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        return times

    def tenth(times: list[float]) -> float:
        return sorted(times)[len(times) // 10]

    networks = {}
    for name in names:
        make, shape, batch = NETWORKS[name]
        rng = np.random.RandomState(communicator.rank)
        given = rng.randn(batch, *shape).astype("f"), rng.randint(0, 10, batch).astype("i")
        steps = {}
        for way in WAYS:
            optimizer, made = optimizer_of(way, communicator)
            model = made(L.Classifier(make()))
            optimizer.setup(model)
            steps[way] = functools.partial(optimizer.update, model, *given)
        flat = np.ones(sum(param.size for param in model.params()), "f")
        steps["allreduce"] = functools.partial(comm.Allreduce, MPI.IN_PLACE, flat)
        n, before = STEPS.get(name, (10, 20))
        for way, run in steps.items():
            with chainer.using_config("sdbr_overlap", way == "overlap"):
                times_of(run, before)
        found: dict[str, list[float]] = {way: [] for way in steps}
        for _ in range(rounds):
            for way, run in steps.items():
                found[way] += times_of(run, n)
        networks[name] = {
            "parameters": flat.size,
            "batch": batch,
            **{way: tenth(times) for way, times in found.items()},
        }
    collectives = []
    for size in SIZES:
        flat = np.zeros(size // 4, "f")
        run = functools.partial(comm.Allreduce, MPI.IN_PLACE, flat)
        times_of(run, 3)
        collectives.append((size, tenth(times_of(run, 20 if size > 1 << 20 else 500))))
    return {"ranks": communicator.size, "networks": networks, "collectives": collectives}


def start(ranks: int, rounds: int, networks: str) -> dict[str, Any]:
    """What rank 0 of so many has measured."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = ["mpiexec", "-n", str(ranks), sys.executable, "-W", "ignore", "-m"]
    command += ["benchmarks.ranks", "--worker", "--rounds", str(rounds)]
    command += ["--networks", networks]
    done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=True, text=True)
    return json.loads(done.stdout)


def table(found: list[dict[str, Any]]) -> str:
    """Microseconds in the form of the page."""
    alone, two = (result["networks"] for result in found)
    lines = [
        "| network | ranks | Chainer | static | overlap | whole step | Allreduce | of the goal |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in alone:
        for n, times in ((1, alone[name]), (2, two[name])):
            step = times["whole step"]
            goal = 1.1 * step if n == 1 else step + 1.2 * times["allreduce"]
            us = [f"{times[way] * 1e6:,.0f}" for way in (*WAYS, "allreduce")]
            us[-1] = us[-1] if n > 1 else ""
            lines.append(f"| {name} | {n} | {' | '.join(us)} | {times['static'] / goal:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--networks", default=",".join([*NETWORKS][:3]), metavar="NAME,...")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        import chainermn

        communicator = chainermn.create_communicator("naive")
        result = measured(communicator, args.rounds, args.networks.split(","))
        if communicator.rank == 0:
            sys.stdout.write(json.dumps(result))
        return
    found = [start(ranks, args.rounds, args.networks) for ranks in (1, 2)]
    print(table(found))
    if args.json:
        machine.save(args.json, results=found)


if __name__ == "__main__":
    main()
