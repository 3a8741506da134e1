"""Models that draw, and what a seeded run of them gives."""

from __future__ import annotations

import sdbr  # noqa: F401

import chainer
import numpy as np
from chainer import functions as F

from tests.harness.comparison import copy_of
from tests.harness.models import floats

X = floats(6, 4)(np.random.RandomState(0))


def noise(self, x):
    h = self.l(x)
    return F.gaussian(h, h * 0.1)


def connected(self, x):
    return F.simplified_dropconnect(x, self.l.W, self.l.b, 0.5)


def several(self, x):
    """Native and Python draws in turn, and draws of user code in between."""
    h = F.dropout(self.l(x), 0.3)
    h = F.rrelu(h)
    h = h + np.random.normal(size=(6, 4)).astype("f")
    h = F.dropout(h, 0.5)
    h = F.gaussian(h, h * 0.1)
    h = h * np.random.rand(6, 4).astype("f")
    np.random.uniform(size=3)  # not used, but drawn
    return F.zoneout(h, self.l(x), 0.5)


STOCHASTIC = {
    "dropout": lambda self, x: F.dropout(self.l(x), 0.5),
    "two dropouts": lambda self, x: F.dropout(F.dropout(self.l(x), 0.2) + 1, 0.5),
    "gaussian": noise,
    "rrelu": lambda self, x: F.rrelu(self.l(x) - 1),
    "zoneout": lambda self, x: F.zoneout(self.l(x), x, 0.5),
    "simplified_dropconnect": connected,
    "gumbel_softmax": lambda self, x: F.gumbel_softmax(self.l(x)),
    "rand": lambda self, x: self.l(x) * np.random.rand(6, 4).astype("f"),
    "randn": lambda self, x: self.l(x) + np.random.randn(4).astype("f"),
    "permutation": lambda self, x: F.get_item(self.l(x), np.random.permutation(6)),
    "choice": lambda self, x: F.select_item(self.l(x), np.random.choice(4, 6)),
    "several": several,
}


def run(model, seed, n=5):
    """Outputs and gradients of `n` iterations on the same data."""
    np.random.seed(seed)
    records = []
    for _ in range(n):
        x = chainer.Variable(X)
        y = model(x)
        model.cleargrads()
        F.sum(y * y).backward()
        records.append({"y": copy_of(y.array), "x": copy_of(x.grad), "W": copy_of(model.l.W.grad)})
    records.append({"after": np.random.rand(3)})
    return records
