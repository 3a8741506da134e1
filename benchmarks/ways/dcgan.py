"""Two small convolutional networks, an adversary of the other each."""

from __future__ import annotations

from typing import Any

import chainer
from chainer import functions as F
from chainer import links as L


class Generator(chainer.Chain):
    """To images of 16 by 16."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.l0 = L.Linear(64, 16 * 4 * 4, nobias=True)
            self.bn0 = L.BatchNormalization(16 * 4 * 4)
            self.dc1 = L.Deconvolution2D(16, 8, 4, 2, 1, nobias=True)
            self.bn1 = L.BatchNormalization(8)
            self.dc2 = L.Deconvolution2D(8, 3, 4, 2, 1)

    def forward(self, z: Any) -> chainer.Variable:
        """Images."""
        h = F.reshape(F.relu(self.bn0(self.l0(z))), (len(z), 16, 4, 4))
        return F.sigmoid(self.dc2(F.relu(self.bn1(self.dc1(h)))))


class Discriminator(chainer.Chain):
    """Of images of 16 by 16."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.c0 = L.Convolution2D(3, 8, 4, 2, 1)
            self.c1 = L.Convolution2D(8, 16, 4, 2, 1, nobias=True)
            self.bn1 = L.BatchNormalization(16, use_gamma=False)
            self.l2 = L.Linear(16 * 4 * 4, 1)

    def forward(self, x: Any) -> chainer.Variable:
        """How real they look."""
        return self.l2(F.leaky_relu(self.bn1(self.c1(F.leaky_relu(self.c0(x))))))
