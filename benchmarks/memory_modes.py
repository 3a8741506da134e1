"""Memory against time: ``memory='low'`` beside the default, and both beside define-by-run.

``python -m benchmarks.memory_modes`` prints one line per network: the bytes of activations that a
whole step of each mode plans, how long a step takes, and how far the parameters are apart after it
(they are not).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import NamedTuple

import sdbr

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L


class Case(NamedTuple):
    """A network and a batch."""

    make: Callable
    data: Callable


class ConvNorm(chainer.Chain):
    """Convolutions, each with batch normalization, relu and dropout."""

    def __init__(self, widths=(32, 32, 64, 64)):
        super().__init__()
        with self.init_scope():
            self.blocks = chainer.ChainList(
                *(
                    L.Convolution2D(a, b, 3, pad=1, nobias=True)
                    for a, b in zip((3, *widths), widths, strict=False)
                )
            )
            self.norms = chainer.ChainList(*map(L.BatchNormalization, widths))
            self.out = L.Linear(None, 10)

    def forward(self, x, t):
        for i, (conv, norm) in enumerate(zip(self.blocks, self.norms, strict=True)):
            x = F.dropout(F.relu(norm(conv(x))), 0.2)
            if i % 2:
                x = F.max_pooling_2d(x, 2)
        return F.softmax_cross_entropy(self.out(x), t)


class Elementwise(chainer.Chain):
    """A deep chain of elementwise functions."""

    def __init__(self, depth=40, size=1000):
        super().__init__()
        self.depth = depth
        with self.init_scope():
            self.scale = chainer.Parameter(np.ones(size, "f"))

    def forward(self, x):
        h = x * F.broadcast_to(self.scale, x.shape)
        for _ in range(self.depth):
            h = h + 0.1 * F.tanh(h * 0.5 + 0.1) * F.sigmoid(h)
        return F.mean(h)


class Block(chainer.Chain):
    """A block of a Transformer, with dropout and a gelu by hand."""

    def __init__(self, width=128, heads=8):
        super().__init__()
        self.heads, self.width = heads, width
        with self.init_scope():
            self.qkv = L.Linear(width, 3 * width)
            self.out = L.Linear(width, width)
            self.up = L.Linear(width, 4 * width)
            self.down = L.Linear(4 * width, width)
            self.n1, self.n2 = L.LayerNormalization(width), L.LayerNormalization(width)

    def forward(self, x, batch):
        h = F.reshape(self.qkv(self.n1(x)), (batch, -1, 3, self.heads, self.width // self.heads))
        q, k, v = F.separate(F.transpose(h, (2, 0, 3, 1, 4)), axis=0)
        scores = F.matmul(q, k, transb=True) * (self.width // self.heads) ** -0.5
        h = F.matmul(F.dropout(F.softmax(scores, axis=3), 0.1), v)
        h = F.reshape(F.transpose(h, (0, 2, 1, 3)), x.shape)
        x = x + F.dropout(self.out(h), 0.1)
        h = self.up(self.n2(x))
        h = 0.5 * h * (1 + F.tanh(0.7978845608 * (h + 0.044715 * h**3)))
        return x + F.dropout(self.down(h), 0.1)


class Transformer(chainer.Chain):
    """Some blocks and a linear head."""

    def __init__(self, layers=2, width=128):
        super().__init__()
        with self.init_scope():
            self.layers = chainer.ChainList(*(Block(width) for _ in range(layers)))
            self.head = L.Linear(width, 100)

    def forward(self, x, t):
        batch, length, width = x.shape
        h = F.reshape(x, (batch * length, width))
        for layer in self.layers:
            h = layer(h, batch)
        return F.softmax_cross_entropy(self.head(h), t)


class Recurrent(chainer.Chain):
    """Two LSTM layers over some steps, with dropout between them."""

    def __init__(self, width=200, steps=20):
        super().__init__()
        self.steps = steps
        with self.init_scope():
            self.l1, self.l2 = L.LSTM(width, width), L.LSTM(width, width)
            self.out = L.Linear(width, 100)

    def forward(self, x, t):
        self.l1.reset_state()
        self.l2.reset_state()
        loss = 0
        for i in range(self.steps):
            h = F.dropout(self.l2(F.dropout(self.l1(x[i]), 0.5)), 0.5)
            loss += F.softmax_cross_entropy(self.out(h), t[i])
        return loss


def _labels(rng, *shape, n=100):
    return rng.randint(0, n, shape).astype("i")


def _floats(rng, *shape):
    return rng.randn(*shape).astype("f")


CASES = {
    "conv + BN + dropout": Case(
        ConvNorm, lambda rng: (_floats(rng, 16, 3, 32, 32), _labels(rng, 16, n=10))
    ),
    "elementwise, 40 deep": Case(Elementwise, lambda rng: (_floats(rng, 256, 1000),)),
    "transformer": Case(Transformer, lambda rng: (_floats(rng, 16, 64, 128), _labels(rng, 1024))),
    "lstm": Case(Recurrent, lambda rng: (_floats(rng, 20, 20, 200), _labels(rng, 20, 20))),
}


def run(case: Case, memory: str, seconds: float) -> tuple[int, float, list[np.ndarray]]:
    """Bytes of activations, seconds of a step (the best), parameters after ten steps."""
    np.random.seed(0)
    model = sdbr.static_graph(case.make(), memory=memory)
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.01)).setup(model)
    data = case.data(np.random.RandomState(0))
    for _ in range(10):
        optimizer.update(model, *data)
    params = [p.array.copy() for _, p in sorted(model.namedparams())]
    program = model.schedule_manager.static_schedule.programs["step"]
    best, end = np.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        optimizer.update(model, *data)
        best = min(best, time.perf_counter() - start)
    return program.arena_bytes, best, params


def main(argv: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help=f"default: all of {', '.join(CASES)}")
    parser.add_argument("--seconds", type=float, default=2.0, help="per network and mode")
    options = parser.parse_args(argv)
    head = ("network", "default MiB", "low MiB", "ratio", "default ms", "low ms", "ratio", "apart")
    print("{:22s} {:>11s} {:>8s} {:>6s} {:>10s} {:>8s} {:>6s} {:>6s}".format(*head))
    for name in options.names or CASES:
        (b0, s0, p0), (b1, s1, p1) = (
            run(CASES[name], memory, options.seconds) for memory in ("default", "low")
        )
        apart = max(float(abs(a - b).max()) for a, b in zip(p0, p1, strict=True))
        print(
            f"{name:22s} {b0 / 2**20:11.2f} {b1 / 2**20:8.2f} {b1 / b0:6.2f} {s0 * 1e3:10.2f} "
            f"{s1 * 1e3:8.2f} {s1 / s0:6.2f} {apart:6.1g}"
        )


if __name__ == "__main__":
    main()
