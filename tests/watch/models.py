"""Ordinary models, and what gives them arguments."""

from __future__ import annotations

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np


class MLP(chainer.Chain):
    def __init__(self, n=100):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(784, n)
            self.l2 = L.Linear(n, n)
            self.l3 = L.Linear(n, 10)

    def forward(self, x):
        return self.l3(F.relu(self.l2(F.relu(self.l1(x)))))


class RNN(chainer.Chain):
    """An LSTM over the words of a text."""

    def __init__(self, words=50, n=64):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(words, n)
            self.l1 = L.LSTM(n, n)
            self.l2 = L.Linear(n, words)

    def forward(self, xs, ts):
        self.l1.reset_state()
        loss = 0
        for k in range(xs.shape[1]):
            y = self.l2(self.l1(self.embed(xs[:, k])))
            loss += F.softmax_cross_entropy(y, ts[:, k])
        return loss / xs.shape[1]


class Block(chainer.Chain):
    """Two convolutions beside a shortcut."""

    def __init__(self, n_in, n_out, stride=1):
        super().__init__()
        with self.init_scope():
            self.c1 = L.Convolution2D(n_in, n_out, 3, stride, 1, nobias=True)
            self.b1 = L.BatchNormalization(n_out)
            self.c2 = L.Convolution2D(n_out, n_out, 3, 1, 1, nobias=True)
            self.b2 = L.BatchNormalization(n_out)
            if stride != 1:
                self.c3 = L.Convolution2D(n_in, n_out, 1, stride, nobias=True)
                self.b3 = L.BatchNormalization(n_out)
        self.projects = stride != 1

    def forward(self, x):
        h = F.relu(self.b1(self.c1(x)))
        h = self.b2(self.c2(h))
        if self.projects:
            x = self.b3(self.c3(x))
        return F.relu(h + x)


class ResNet(chainer.Chain):
    """As ResNet-18, and narrower."""

    def __init__(self):
        super().__init__()
        sizes = ((4, 4, 1), (4, 4, 1), (4, 8, 2), (8, 8, 1), (8, 8, 2), (8, 8, 1))
        with self.init_scope():
            self.c = L.Convolution2D(3, 4, 3, 1, 1)
            self.b = L.BatchNormalization(4)
            self.blocks = chainer.ChainList(*[Block(*size) for size in sizes])
            self.fc = L.Linear(8, 10)

    def forward(self, x):
        h = F.relu(self.b(self.c(x)))
        for block in self.blocks:
            h = block(h)
        return self.fc(F.mean(h, axis=(2, 3)))


def labels(n):
    return np.random.randint(0, 10, n).astype("i")


def words():
    return np.random.randint(0, 50, (4, 20)).astype("i")


def mlp():
    model = L.Classifier(MLP())
    return model, lambda: (np.random.randn(20, 784).astype("f"), labels(20))


def step():
    model = L.Classifier(MLP())

    def loss_and_gradients(x, t):
        loss = model(x, t)
        model.cleargrads()
        loss.backward()
        return loss

    return loss_and_gradients, lambda: (np.random.randn(20, 784).astype("f"), labels(20))


def lstm():
    return RNN(), lambda: (words(), words())


def resnet():
    model = L.Classifier(ResNet())
    return model, lambda: (np.random.randn(2, 3, 8, 8).astype("f"), labels(2))


MODELS = {"mlp": mlp, "mlp with backward": step, "lstm of 20 steps": lstm, "resnet": resnet}
