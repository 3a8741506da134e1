"""The models of `benchmarks.tracing`, loaded anew for each round: nothing is known of a class."""

from __future__ import annotations

import chainer
from chainer import functions as F
from chainer import links as L


class MLP(chainer.Chain):
    """`depth` small linear layers with ReLU, and cross entropy."""

    def __init__(self, depth: int):
        super().__init__()
        with self.init_scope():
            self.layers = chainer.ChainList(*[L.Linear(16, 16) for _ in range(depth)])
            self.out = L.Linear(16, 4)

    def forward(self, x, t):
        """The loss."""
        h = x
        for layer in self.layers:
            h = F.relu(layer(h))
        return F.softmax_cross_entropy(self.out(h), t)


class LSTM(chainer.Chain):
    """An LSTM that is unrolled step by step, with a loss in each."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.lstm = L.LSTM(8, 16)
            self.out = L.Linear(16, 4)

    def forward(self, xs, ts):
        """The sum of the losses."""
        self.lstm.reset_state()
        loss = 0
        for x, t in zip(xs, ts, strict=True):
            loss += F.softmax_cross_entropy(self.out(self.lstm(x)), t)
        return loss


class Outputs(chainer.Chain):
    """A call with `n` results."""

    def __init__(self, n: int):
        super().__init__()
        self.n = n
        with self.init_scope():
            self.linear = L.Linear(16, 16)

    def forward(self, x):
        """A list of `n` Variables."""
        y = self.linear(x)
        return [y * (1.0 + i) for i in range(self.n)]
