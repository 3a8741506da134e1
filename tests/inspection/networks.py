"""Small networks for the tests of explain and profile."""

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np


class Net(chainer.Chain):
    def __init__(self, between=F.relu):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(3, 8)
            self.l2 = L.Linear(8, 2)
        self.between = between

    def forward(self, x):
        return self.l2(self.between(self.l1(x)))


def batch(n=4):
    rng = np.random.RandomState(n)
    return rng.randn(n, 3).astype("f"), rng.randint(0, 2, n).astype("i")


def trained(between=F.relu, steps=5, backend="cython", rule=chainer.optimizers.Adam, **options):
    """A static classifier and its static optimizer after a few whole steps."""
    model = sdbr.static_graph(L.Classifier(Net(between)), backend=backend, **options)
    optimizer = sdbr.static_optimizer(rule())
    optimizer.setup(model)
    for _ in range(steps):
        optimizer.update(model, *batch())
    return model, optimizer


class Triple(chainer.FunctionNode):
    """A user's function: no row will ever make it native."""

    def forward(self, inputs):
        return (inputs[0] * 3,)

    def backward(self, indexes, gys):
        return (gys[0] * 3,)


def triple(x):
    return Triple().apply((x,))[0]
