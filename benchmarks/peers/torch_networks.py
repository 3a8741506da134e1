"""The networks that are more than a perceptron, as ordinary PyTorch."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.cases import lstm_ptb, resnet50, transformer, vgg_cifar

# Chainer's eps and its share of the old running value.
NORM = {"eps": 2e-5, "momentum": 0.1}


def lenet() -> nn.Module:
    """Two convolutions with max pooling, two linear layers."""
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 20, 5),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),
            conv2=nn.Conv2d(20, 50, 5),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            fc1=nn.Linear(800, 500),
            relu3=nn.ReLU(),
            fc2=nn.Linear(500, 10),
        )
    )


def dqn() -> nn.Module:
    """Action values of frames."""
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(4, 32, 8, stride=4),
            relu1=nn.ReLU(),
            conv2=nn.Conv2d(32, 64, 4, stride=2),
            relu2=nn.ReLU(),
            conv3=nn.Conv2d(64, 64, 3),
            relu3=nn.ReLU(),
            flatten=nn.Flatten(),
            fc1=nn.Linear(3136, 512),
            relu4=nn.ReLU(),
            fc2=nn.Linear(512, 6),
        )
    )


class Vgg(nn.Module):
    """VGG16 with batch normalization."""

    def __init__(self):
        super().__init__()
        n_in = 3
        self.blocks = nn.ModuleList()
        for n_out, repeat in vgg_cifar.PLAN:
            stage = nn.Sequential()
            for i in range(repeat):
                conv = nn.Conv2d(n_in, n_out, 3, padding=1, bias=False)
                norm = nn.BatchNorm2d(n_out, **NORM)
                parts = OrderedDict(conv=conv, bn=norm, relu=nn.ReLU(inplace=True))
                stage.add_module(str(i), nn.Sequential(parts))
                n_in = n_out
            stage.add_module("pool", nn.MaxPool2d(2))
            self.blocks.append(stage)
        self.fc1 = nn.Linear(512, 512, bias=False)
        self.bn_fc1 = nn.BatchNorm1d(512, **NORM)
        self.fc2 = nn.Linear(512, 10, bias=False)

    def forward(self, x):
        for stage in self.blocks:
            x = stage(x)
        return self.fc2(functional.relu(self.bn_fc1(self.fc1(x.flatten(1)))))


class Bottleneck(nn.Module):
    """Three convolutions beside a shortcut; the stride is that of the first, as in Chainer."""

    def __init__(self, n_in: int, n_mid: int, n_out: int, stride: int, project: bool):
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_mid, 1, stride, bias=False)
        self.bn1 = nn.BatchNorm2d(n_mid, **NORM)
        self.conv2 = nn.Conv2d(n_mid, n_mid, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(n_mid, **NORM)
        self.conv3 = nn.Conv2d(n_mid, n_out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(n_out, **NORM)
        self.project = project
        if project:
            self.conv4 = nn.Conv2d(n_in, n_out, 1, stride, bias=False)
            self.bn4 = nn.BatchNorm2d(n_out, **NORM)

    def forward(self, x):
        h = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        h = functional.relu(self.bn2(self.conv2(h)), inplace=True)
        h = self.bn3(self.conv3(h))
        return functional.relu(h + (self.bn4(self.conv4(x)) if self.project else x), inplace=True)


class ResNet50(nn.Module):
    """ResNet-50 with the names of ``ResNet50Layers``."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3)
        self.bn1 = nn.BatchNorm2d(64, **NORM)
        self.pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        for name, n, n_in, n_mid, n_out, stride in resnet50.STAGES:
            stage = nn.Sequential()
            for block in resnet50.blocks(n):
                first = block == "a"
                unit = Bottleneck(n_in, n_mid, n_out, stride if first else 1, first)
                stage.add_module(block, unit)
                n_in = n_out
            self.add_module(name, stage)
        self.fc6 = nn.Linear(2048, 1000)

    def forward(self, x):
        x = self.pool(functional.relu(self.bn1(self.conv1(x)), inplace=True))
        x = self.res5(self.res4(self.res3(self.res2(x))))
        return self.fc6(x.mean((2, 3)))


class LstmPtb(nn.Module):
    """Both layers in one ``nn.LSTM``."""

    def __init__(self):
        super().__init__()
        n = lstm_ptb.N_UNITS
        self.embed = nn.Embedding(lstm_ptb.N_WORDS, n)
        self.lstm = nn.LSTM(n, n, 2)
        self.out = nn.Linear(n, lstm_ptb.N_WORDS)
        for i in (0, 1):
            # Chainer has one bias; a second one that is trained would double its rate.
            getattr(self.lstm, f"bias_hh_l{i}").requires_grad_(False).zero_()

    def forward(self, x):
        h, _ = self.lstm(self.embed(x))
        return self.out(h.flatten(0, 1))


class EncoderBlock(nn.Module):
    """Self-attention and two layers, each normalized before and added to its input."""

    def __init__(self, n: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.ln1 = nn.LayerNorm(n, eps=1e-6)
        self.qkv = nn.Linear(n, 3 * n)
        self.out = nn.Linear(n, n)
        self.ln2 = nn.LayerNorm(n, eps=1e-6)
        self.ff1 = nn.Linear(n, 4 * n)
        self.ff2 = nn.Linear(4 * n, n)

    def forward(self, x):
        batch, length, n = x.shape
        h = self.qkv(self.ln1(x)).view(batch, length, 3, self.n_heads, n // self.n_heads)
        q, k, v = h.permute(2, 0, 3, 1, 4)
        h = functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(h.transpose(1, 2).reshape(batch, length, n))
        return x + self.ff2(functional.relu(self.ff1(self.ln2(x))))


class Transformer(nn.Module):
    """Embedding, positions, blocks, one class per word."""

    def __init__(self):
        super().__init__()
        n = transformer.N_UNITS
        self.embed = nn.Embedding(transformer.N_WORDS, n)
        self.position = nn.Parameter(torch.empty(transformer.LENGTH, n))
        self.blocks = nn.Sequential(
            *(EncoderBlock(n, transformer.N_HEADS) for _ in range(transformer.N_LAYERS))
        )
        self.ln = nn.LayerNorm(n, eps=1e-6)
        self.out = nn.Linear(n, transformer.N_WORDS)

    def forward(self, x):
        h = self.blocks(self.embed(x) + self.position)
        return self.out(self.ln(h)).flatten(0, 1)


NETWORKS = {
    "lenet": lenet,
    "vgg_cifar": Vgg,
    "resnet50": ResNet50,
    "lstm_ptb": LstmPtb,
    "transformer": Transformer,
    "dqn": dqn,
}

_LEAVES = {"W": "weight", "b": "bias", "gamma": "weight", "beta": "bias"}
_LSTM = {"upward/W": "weight_ih", "upward/b": "bias_ih", "lateral/W": "weight_hh"}


def build(name: str, weights: dict[str, np.ndarray]) -> nn.Module:
    """Return a network with given weights; every one of them has its place."""
    module = NETWORKS[name]()
    places = dict(module.named_parameters())
    with torch.no_grad():
        for path, weight in weights.items():
            place, weight = _placed(name, path, weight)
            places.pop(place).copy_(torch.from_numpy(weight))
    left = [place for place, param in places.items() if param.requires_grad]
    if left:
        raise ValueError(f"no weights for {', '.join(left)}")
    return module


def _placed(name: str, path: str, weight: np.ndarray) -> tuple[str, np.ndarray]:
    layer, _, rest = path.partition("/")
    if name == "lstm_ptb" and rest in _LSTM:
        return f"lstm.{_LSTM[rest]}_l{int(layer[1]) - 1}", _gates_in_blocks(weight)
    *above, leaf = path.split("/")
    return ".".join([*above, _LEAVES.get(leaf, leaf)]), weight


def _gates_in_blocks(weight: np.ndarray) -> np.ndarray:
    # Chainer's rows are unit by unit (candidate, input, forget, output); PyTorch's are blocks
    # of input, forget, candidate, output.
    a, i, f, o = np.moveaxis(weight.reshape(-1, 4, *weight.shape[1:]), 1, 0)
    return np.concatenate([i, f, a, o])
