"""Gradient accumulation: four small batches to an update, as if it were one large batch.

    python examples/accumulation.py [--explain]

Look at the counts: replays, but no whole steps. A step with several backwards is no single call,
and ``--explain`` says so. Each small batch is a native forward and a native backward, which adds
to the gradients that are there; the update is a native call, too, because the optimizer is static.
The activations of one small batch at a time are all that has to fit in memory. Where all four fit,
a call that goes through them in a loop, or one large batch, is a whole step and faster.

The picture shows on its right how far the losses are from those of one large batch: rounding.
"""

import sdbr  # first: makes Chainer importable

import chainer
import chainer.functions as F
import chainer.links as L
import common
import numpy as np

PARTS = 4
LARGE = 64


class Network(chainer.Chain):
    """Three layers, and the loss divided by the number of batches to an update."""

    def __init__(self, parts: int):
        super().__init__()
        self.parts = parts
        with self.init_scope():
            self.l1, self.l2 = L.Linear(64, 128), L.Linear(128, 128)
            self.l3 = L.Linear(128, 10)

    def forward(self, x, t):
        """The loss: divided in here, it is part of what is static."""
        y = self.l3(F.relu(self.l2(F.relu(self.l1(x)))))
        self.accuracy = F.accuracy(y, t)
        self.loss = F.softmax_cross_entropy(y, t) / self.parts
        return self.loss


def prepare(parts: int):
    """A model, its optimizer, large batches, and the test set, from one seed."""
    np.random.seed(0)
    x_train, t_train, x_test, t_test = (a.reshape(len(a), -1) for a in common.digits())
    model = sdbr.static_graph(Network(parts))
    optimizer = sdbr.static_optimizer(chainer.optimizers.MomentumSGD(lr=0.05)).setup(model)
    batches = common.random_batches(LARGE, x_train, t_train.ravel())
    return model, optimizer, batches, (x_test, t_test.ravel())


def train(steps):
    """Train by small batches, then by large ones; return the model and the losses of both."""
    model, optimizer, batches, test = prepare(PARTS)
    for _ in steps:
        x, t = next(batches)
        loss = 0.0
        model.cleargrads()
        for part in np.split(np.arange(LARGE), PARTS):
            model(x[part], t[part]).backward()
            loss += float(model.loss.item())  # the number: a kept Variable would keep its graph
        optimizer.update()
        steps.log(loss)

    with chainer.using_config("train", False), chainer.no_backprop_mode():
        model(*test)
    steps.say(f"test accuracy {float(model.accuracy.item()):.4f}")
    return model, steps.losses, by_large_batches(len(steps))


def by_large_batches(n: int) -> list[float]:
    """The losses of whole steps on batches four times as large."""
    model, optimizer, batches, _ = prepare(1)
    losses = []
    for _ in range(n):
        optimizer.update(model, *next(batches))
        losses.append(float(model.loss.item()))
    return losses


def draw(axes, trained):
    """How far both trainings are apart."""
    _, small, large = trained
    axes.semilogy(np.abs(np.array(small) - large) + 1e-9, linewidth=1)
    axes.set(xlabel="step", title=f"|{PARTS} x {LARGE // PARTS} examples - {LARGE} examples|")


if __name__ == "__main__":
    common.main(train, draw, steps=3000, plain=300, quick=20)
