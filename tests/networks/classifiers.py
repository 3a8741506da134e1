"""Networks that tell classes of images, with few channels."""

from __future__ import annotations

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
from chainer.links.model.vision.resnet import BuildingBlock

from .harness import Network


class Labelled(chainer.Chain):
    """Cross entropy over a network; a network may return several outputs and their weights."""

    def __init__(self, predictor: chainer.Chain):
        super().__init__()
        with self.init_scope():
            self.predictor = predictor

    def forward(self, x, t):
        self.loss = F.softmax_cross_entropy(self.predictor(x), t)
        return self.loss


def images(random, n, channels, size, classes=10):
    """A batch of images and their labels."""
    x = random.standard_normal((n, channels, size, size)).astype(np.float32)
    return x, random.randint(0, classes, n).astype(np.int32)


class LeNetChain(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv1 = L.Convolution2D(1, 4, 5)
            self.conv2 = L.Convolution2D(4, 6, 5)
            self.fc1 = L.Linear(None, 20)
            self.fc2 = L.Linear(20, 10)

    def forward(self, x):
        h = F.max_pooling_2d(F.relu(self.conv1(x)), 2)
        h = F.max_pooling_2d(F.relu(self.conv2(h)), 2)
        return self.fc2(F.relu(self.fc1(h)))


class LeNet(Network):
    def make(self):
        return Labelled(LeNetChain())

    def data(self, i):
        return images(self.random, 4, 1, 28)


class Block(chainer.Chain):
    """Convolution, batch normalization, ReLU."""

    def __init__(self, n_in, n_out, ksize=3, pad=1, stride=1):
        super().__init__()
        with self.init_scope():
            self.conv = L.Convolution2D(n_in, n_out, ksize, stride, pad, nobias=True)
            self.bn = L.BatchNormalization(n_out)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class VggChain(chainer.Chain):
    """VGG16 for images of 32 by 32, dropout as in Chainer's CIFAR example."""

    PLAN = ((8, 2), (8, 2), (12, 3), (16, 3), (16, 3))

    def __init__(self):
        super().__init__()
        n_in = 3
        blocks = []
        for n_out, repeat in self.PLAN:
            for _ in range(repeat):
                blocks.append(Block(n_in, n_out))
                n_in = n_out
        with self.init_scope():
            self.blocks = chainer.ChainList(*blocks)
            self.fc1 = L.Linear(None, 16, nobias=True)
            self.bn_fc1 = L.BatchNormalization(16)
            self.fc2 = L.Linear(16, 10, nobias=True)

    def forward(self, x):
        blocks = iter(self.blocks)
        for stage, (_, repeat) in enumerate(self.PLAN):
            for i in range(repeat):
                x = next(blocks)(x)
                if i < repeat - 1:
                    x = F.dropout(x, ratio=0.4 if stage else 0.3)
            x = F.max_pooling_2d(x, ksize=2, stride=2)
        x = F.dropout(x, ratio=0.5)
        x = F.relu(self.bn_fc1(self.fc1(x)))
        return self.fc2(F.dropout(x, ratio=0.5))


class Vgg16(Network):
    def make(self):
        return Labelled(VggChain())

    def data(self, i):
        return images(self.random, 8, 3, 32)


class ResNetLogits(chainer.Chain):
    """The real class."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.base = L.ResNet50Layers(pretrained_model=None)

    def forward(self, x):
        return self.base(x, layers=["fc6"])["fc6"]


class NarrowResNet(chainer.Chain):
    """ResNet-50's 53 convolutions in Chainer's own blocks, with few channels."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv1 = L.Convolution2D(3, 4, 7, 2, 3, nobias=True)
            self.bn1 = L.BatchNormalization(4)
            self.res2 = BuildingBlock(3, 4, 4, 8, 1)
            self.res3 = BuildingBlock(4, 8, 4, 16, 2)
            self.res4 = BuildingBlock(6, 16, 8, 16, 2)
            self.res5 = BuildingBlock(3, 16, 8, 32, 2)
            self.fc6 = L.Linear(32, 10)

    def forward(self, x):
        h = F.max_pooling_2d(F.relu(self.bn1(self.conv1(x))), ksize=3, stride=2)
        h = self.res5(self.res4(self.res3(self.res2(h))))
        return self.fc6(F.average(h, axis=(2, 3)))


class ResNet50(Network):
    """In float32 and with random weights one rounding moves gradients by percents."""

    dtype = np.float64

    def make(self):
        return Labelled(NarrowResNet())

    def data(self, i):
        x, t = images(self.random, 4, 3, 64)
        return x.astype(self.dtype), t


class GoogLeNetChain(chainer.Chain):
    """GoogLeNet with its two auxiliary classifiers, for images of 64 by 64."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv1 = L.Convolution2D(3, 4, 7, stride=2, pad=3)
            self.conv2_reduce = L.Convolution2D(4, 4, 1)
            self.conv2 = L.Convolution2D(4, 8, 3, pad=1)
            self.inc3a = L.Inception(8, 4, 4, 6, 2, 2, 2)
            self.inc3b = L.Inception(14, 4, 4, 6, 2, 4, 2)
            self.inc4a = L.Inception(16, 4, 4, 6, 2, 4, 2)
            self.inc4b = L.Inception(16, 4, 4, 6, 2, 4, 2)
            self.inc4d = L.Inception(16, 4, 4, 6, 2, 4, 2)
            self.inc5a = L.Inception(16, 4, 4, 6, 2, 4, 4)
            self.heads = chainer.ChainList(Head(), Head())
            self.out = L.Linear(18, 10)

    def forward(self, x, t):
        h = F.max_pooling_2d(F.relu(self.conv1(x)), 3, stride=2)
        h = F.local_response_normalization(h, n=5)
        h = F.relu(self.conv2(F.relu(self.conv2_reduce(h))))
        h = F.max_pooling_2d(F.local_response_normalization(h, n=5), 3, stride=2)
        h = self.inc3b(self.inc3a(h))
        h = self.inc4a(F.max_pooling_2d(h, 3, stride=2))
        first = F.softmax_cross_entropy(self.heads[0](h), t)
        h = self.inc4d(self.inc4b(h))
        second = F.softmax_cross_entropy(self.heads[1](h), t)
        h = self.inc5a(F.max_pooling_2d(h, 3, stride=2))
        h = self.out(F.dropout(F.average_pooling_2d(h, 2, stride=1), 0.4))
        self.loss = 0.3 * (first + second) + F.softmax_cross_entropy(h, t)
        self.accuracy = F.accuracy(h, t)
        return self.loss


class Head(chainer.Chain):
    """An auxiliary classifier."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv = L.Convolution2D(16, 4, 1)
            self.fc = L.Linear(None, 12)
            self.out = L.Linear(12, 10)

    def forward(self, x):
        h = F.relu(self.conv(F.average_pooling_2d(x, 3, stride=1)))
        return self.out(F.dropout(F.relu(self.fc(h)), 0.7))


class GoogLeNet(Network):
    def make(self):
        return GoogLeNetChain()

    def data(self, i):
        return images(self.random, 4, 3, 64)
