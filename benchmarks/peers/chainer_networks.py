"""The networks that are more than a perceptron, as ordinary Chainer."""

from __future__ import annotations

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np

from benchmarks.cases import lstm_ptb, transformer, vgg_cifar


class LeNet(chainer.Chain):
    """Two convolutions with max pooling, two linear layers."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv1 = L.Convolution2D(1, 20, 5)
            self.conv2 = L.Convolution2D(20, 50, 5)
            self.fc1 = L.Linear(800, 500)
            self.fc2 = L.Linear(500, 10)

    def forward(self, x):
        h = F.max_pooling_2d(F.relu(self.conv1(x)), 2)
        h = F.max_pooling_2d(F.relu(self.conv2(h)), 2)
        return self.fc2(F.relu(self.fc1(h)))


class ConvNormRelu(chainer.Chain):
    """What VGG is made of."""

    def __init__(self, n_in: int, n_out: int):
        super().__init__()
        with self.init_scope():
            self.conv = L.Convolution2D(n_in, n_out, 3, pad=1, nobias=True)
            self.bn = L.BatchNormalization(n_out)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class Vgg(chainer.Chain):
    """Chainer's CIFAR example, without dropout."""

    def __init__(self):
        super().__init__()
        n_in = 3
        stages = []
        for n_out, repeat in vgg_cifar.PLAN:
            stage = [ConvNormRelu(n_in if i == 0 else n_out, n_out) for i in range(repeat)]
            stages.append(chainer.ChainList(*stage))
            n_in = n_out
        with self.init_scope():
            self.blocks = chainer.ChainList(*stages)
            self.fc1 = L.Linear(512, 512, nobias=True)
            self.bn_fc1 = L.BatchNormalization(512)
            self.fc2 = L.Linear(512, 10, nobias=True)

    def forward(self, x):
        for stage in self.blocks:
            for block in stage:
                x = block(x)
            x = F.max_pooling_2d(x, ksize=2, stride=2)
        return self.fc2(F.relu(self.bn_fc1(self.fc1(x))))


class ResNet50(L.ResNet50Layers):
    """Chainer's own, up to the last linear layer."""

    def __init__(self):
        super().__init__(pretrained_model=None)

    def forward(self, x):
        return super().forward(x, layers=["fc6"])["fc6"]


class LstmPtb(chainer.Chain):
    """All steps of a batch (steps, sentences), from an empty state."""

    def __init__(self):
        super().__init__()
        n = lstm_ptb.N_UNITS
        with self.init_scope():
            self.embed = L.EmbedID(lstm_ptb.N_WORDS, n)
            self.l1 = L.LSTM(n, n)
            self.l2 = L.LSTM(n, n)
            self.out = L.Linear(n, lstm_ptb.N_WORDS)

    def forward(self, x):
        self.l1.reset_state()
        self.l2.reset_state()
        hs = [self.l2(self.l1(h)) for h in F.separate(self.embed(x), axis=0)]
        return self.out(F.concat(hs, axis=0))


class EncoderBlock(chainer.Chain):
    """Self-attention and two layers, each normalized before and added to its input."""

    def __init__(self, n: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        with self.init_scope():
            self.ln1 = L.LayerNormalization(n)
            self.qkv = L.Linear(n, 3 * n)
            self.out = L.Linear(n, n)
            self.ln2 = L.LayerNormalization(n)
            self.ff1 = L.Linear(n, 4 * n)
            self.ff2 = L.Linear(4 * n, n)

    def attention(self, h, shape):
        batch, length, n = shape
        h = h.reshape((batch, length, 3, self.n_heads, n // self.n_heads))
        q, k, v = F.separate(h.transpose((2, 0, 3, 1, 4)), axis=0)
        scores = F.matmul(q, k, transb=True) * (n // self.n_heads) ** -0.5
        h = F.matmul(F.softmax(scores, axis=3), v).transpose((0, 2, 1, 3))
        return h.reshape((-1, n))

    def forward(self, x, shape):
        x = x + self.out(self.attention(self.qkv(self.ln1(x)), shape))
        return x + self.ff2(F.relu(self.ff1(self.ln2(x))))


class Transformer(chainer.Chain):
    """Blocks work on (words of all sentences, units)."""

    def __init__(self):
        super().__init__()
        n = transformer.N_UNITS
        with self.init_scope():
            self.embed = L.EmbedID(transformer.N_WORDS, n)
            self.position = chainer.Parameter(shape=(transformer.LENGTH, n))
            self.blocks = chainer.ChainList(
                *(EncoderBlock(n, transformer.N_HEADS) for _ in range(transformer.N_LAYERS))
            )
            self.ln = L.LayerNormalization(n)
            self.out = L.Linear(n, transformer.N_WORDS)

    def forward(self, x):
        h = self.embed(x)
        shape = h.shape
        h = (h + F.broadcast_to(self.position, shape)).reshape((-1, shape[2]))
        for block in self.blocks:
            h = block(h, shape)
        return self.out(self.ln(h))


class Dqn(chainer.Chain):
    """Action values of frames."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv1 = L.Convolution2D(4, 32, 8, stride=4)
            self.conv2 = L.Convolution2D(32, 64, 4, stride=2)
            self.conv3 = L.Convolution2D(64, 64, 3)
            self.fc1 = L.Linear(3136, 512)
            self.fc2 = L.Linear(512, 6)

    def forward(self, x):
        h = F.relu(self.conv1(x))
        h = F.relu(self.conv2(h))
        h = F.relu(self.conv3(h))
        return self.fc2(F.relu(self.fc1(h)))


NETWORKS = {
    "lenet": LeNet,
    "vgg_cifar": Vgg,
    "resnet50": ResNet50,
    "lstm_ptb": LstmPtb,
    "transformer": Transformer,
    "dqn": Dqn,
}


def load(network: chainer.Chain, weights: dict[str, np.ndarray]) -> chainer.Chain:
    """Put weights into a network; every one of them has its place."""
    params = {path[1:]: param for path, param in network.namedparams()}
    if params.keys() != weights.keys():
        raise ValueError(f"parameters differ: {sorted(params.keys() ^ weights.keys())}")
    for path, param in params.items():
        if param.shape != weights[path].shape:
            raise ValueError(f"{path}: {param.shape} is not {weights[path].shape}")
        param.array[...] = weights[path]
    return network
