"""The models that are run for long and by many threads."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L

from tests.tolerances import FLOOR, SUMS


class Net(chainer.Chain):
    """Native ops, Python ops, random draws, state and reported values."""

    def __init__(self, seed=0, width=16):
        super().__init__()
        rng = np.random.RandomState(seed)
        with self.init_scope():
            self.l1 = L.Linear(8, width, initialW=rng.randn(width, 8).astype("f") * 0.3)
            self.norm = L.BatchNormalization(width)
            self.l2 = L.Linear(width, 3, initialW=rng.randn(3, width).astype("f") * 0.3)
        self.kept = None

    def forward(self, x, t):
        h = F.relu(self.l1(x))
        h = self.norm(F.dropout(h, 0.2))  # a Python op between native ones
        h = F.concat([h[:, :4], F.arctan(h[:, 4:])], axis=1)
        y = self.l2(h)
        self.kept = y
        loss = F.softmax_cross_entropy(y, t)
        chainer.report({"loss": loss, "accuracy": F.accuracy(y, t)}, self)
        return loss


class Pure(chainer.Chain):
    """No state at all: what many threads may call at once."""

    def __init__(self, seed=0, width=48):
        super().__init__()
        rng = np.random.RandomState(seed)
        with self.init_scope():
            self.l1 = L.Linear(8, width, initialW=rng.randn(width, 8).astype("f") * 0.3)
            self.l2 = L.Linear(width, 3, initialW=rng.randn(3, width).astype("f") * 0.3)

    def forward(self, x):
        h = F.tanh(self.l1(x))
        return self.l2(h * F.softmax(h) + F.erf(h))  # erf is a Python op


def batch(rng, n):
    """Data and labels, `n` rows."""
    return rng.randn(n, 8).astype("f"), rng.randint(0, 3, n).astype("i")


def define_by_run(model, *args):
    """What a call of `model` gives without sdbr."""
    with chainer.using_config("use_static_graph", False):
        return model(*args)


def answer(model, x):
    """Output and gradients of one call, nothing of it kept on the model."""
    x = chainer.Variable(x)
    y = model(x)
    loss = F.sum(F.square(y))
    grads = chainer.grad([loss], [x, *[p for _, p in sorted(model.namedparams())]])
    return [y.array, *[g.array for g in grads]]


def is_near(got, want):
    """Within the contract: 1e-4 of the largest magnitude of each array."""
    return all(
        g.shape == w.shape and np.abs(g - w).max(initial=0) <= SUMS * np.abs(w).max(initial=FLOOR)
        for g, w in zip(got, want, strict=True)
    )


def static(make, **options):
    """A static model."""
    return sdbr.static_graph(make(), **{"on_dynamic": "raise", **options})
