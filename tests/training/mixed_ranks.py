"""Ranks that run the same training in different ways, started by ``mpiexec``."""

from __future__ import annotations

import json
import sys

import sdbr

import chainer
import chainermn
import numpy as np
from chainer import functions as F
from chainer import links as L

STEPS = 8


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 6)
            self.half = L.Linear(6, 6)
            self.l2 = L.Linear(6, 3)
            self.unused = L.Linear(2, 2)
        self.half.W.array = np.asfortranarray(self.half.W.array)

    def forward(self, x, t):
        h = F.tanh(self.l1(x))
        h = self.half(F.cast(h, self.half.W.dtype))
        return F.softmax_cross_entropy(self.l2(F.cast(h, "f")), t)


def train(dtype: str, way: str, communicator) -> list:
    """How many whole steps each rank has made, how many updates, and the last gradients."""
    model = Net()
    for param in model.half.params():
        param.array = param.array.astype(dtype)
    if way != "define-by-run":
        sdbr.static_graph(model)
    optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.Adam(), communicator)
    sdbr.static_optimizer(optimizer, validate_every=1).setup(model)
    optimizer.add_hook(chainer.optimizer_hooks.WeightDecay(0.01))
    rng = np.random.RandomState(communicator.rank)
    for i in range(STEPS):
        batch = rng.randn(5, 4).astype("f"), rng.randint(0, 3, 5).astype("i")
        with chainer.using_config("use_static_graph", way != "off" and (way != "late" or i > 4)):
            if way == "by hand":
                model.cleargrads()
                model(*batch).backward()
                optimizer.update()
            else:
                optimizer.update(model, *batch)
    steps = 0 if way == "define-by-run" else model.schedule_manager.statistics.steps
    gradients = [p.grad.ravel().tolist() for _, p in sorted(model.namedparams())]
    return communicator.gather_obj((steps, optimizer.t, gradients))


def main() -> None:
    communicator = chainermn.create_communicator("naive")
    dtypes, *ways = sys.argv[1:]
    way = ways[communicator.rank]
    found = {dtype: train(dtype, way, communicator) for dtype in dtypes.split(",")}
    if communicator.rank == 0:
        sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
