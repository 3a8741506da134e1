"""A training on several processes, started by ``mpiexec``; rank 0 writes what came of it as JSON.

``mpiexec -n 2 python tests/training/two_ranks.py FILE DTYPE ...``: each rank has its part of the
batch. ``mpiexec`` takes half a minute to hand on what is printed of so many parameters.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import sdbr

import chainer
import chainermn
import numpy as np
from chainer import functions as F
from chainer import links as L


class Net(chainer.Chain):
    def __init__(self, dtype):
        super().__init__()
        rng = np.random.RandomState(0)
        with self.init_scope(), chainer.using_config("dtype", dtype):
            self.l1 = L.Linear(4, 8, initialW=rng.randn(8, 4).astype(dtype))
            self.l2 = L.Linear(8, 3, initialW=rng.randn(3, 8).astype(dtype))
            # Large enough for collectives of its own, and read in none of the calls.
            self.large = L.Linear(300, 300, initialW=rng.randn(300, 300).astype(dtype))

    def forward(self, x, t):
        return F.softmax_cross_entropy(self.l2(F.tanh(self.l1(x))), t)


def train(dtype, communicator, order: str, steps: int = 6):
    """The parameters, and statistics."""
    model = Net(dtype)
    # Ranks begin at different places; the first update sends those of rank 0.
    model.l1.b.array[...] = communicator.rank
    sdbr.static_graph(model)
    optimizer = chainer.optimizers.Adam()
    if order == "inside":
        optimizer = sdbr.static_optimizer(optimizer)
    optimizer = chainermn.create_multi_node_optimizer(optimizer, communicator)
    if order == "outside":
        optimizer = sdbr.static_optimizer(optimizer)
    optimizer.setup(model)
    rng = np.random.RandomState(1)
    n = 12 // communicator.size
    for _ in range(steps):
        x, t = rng.randn(12, 4).astype(dtype), rng.randint(0, 3, 12).astype("i")
        mine = slice(communicator.rank * n, (communicator.rank + 1) * n)
        optimizer.update(model, x[mine], t[mine])
    statistics = model.schedule_manager.statistics
    updates = optimizer.actual_optimizer.update_statistics
    return {
        "params": [p.array.ravel().tolist() for _, p in sorted(model.namedparams())],
        "replays": statistics.replays,
        "steps": statistics.steps,
        "native updates": updates.native_calls,
        "collectives": collectives(model),
        "t": optimizer.t,
    }


def collectives(model) -> list[str]:
    """The ops of the collectives in the program of a whole step."""
    program = model.static_schedule.programs.get("step")
    lines = [] if program is None else program.disassemble().splitlines()
    names = [line.split()[1] for line in lines if "allreduce" in line]
    return [name for name in names if name != "allreduce_progress"]


def main() -> None:
    communicator = chainermn.create_communicator("naive")
    found = {
        f"{dtype} {order}": communicator.gather_obj(train(dtype, communicator, order))
        for dtype in sys.argv[2:]
        for order in ("inside", "outside")
    }
    if communicator.rank == 0:
        Path(sys.argv[1]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
