"""What the bytes in test_old_pickles.py were made of."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L


class Net(chainer.Chain):
    """A chain whose forward is decorated in its class."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.fc = L.Linear(2, 1, initialW=np.full((1, 2), 0.5, "f"))

    @sdbr.static_graph
    def forward(self, x):
        return F.sum(self.fc(x))


def trained():
    """A static chain, one made static as an instance, and an optimizer, after two steps."""
    net = Net()
    other = sdbr.static_graph(L.Linear(2, 2, initialW=np.eye(2, dtype="f")))
    optimizer = sdbr.static_optimizer(chainer.optimizers.MomentumSGD(0.25))
    optimizer.setup(net)
    x = np.ones((2, 2), "f")
    for _ in range(2):
        optimizer.update(net, x)
        other(x)
    return net, other, optimizer
